//! Files that a scan leaves alone or only lists, and the length of its report.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::world::{WHOLE, World, moved};
use crate::inspect::{self, InspectInput, MAX_LISTED};
use sandbox_git::protect as git;

#[test]
fn ordinary_work_leaves_nothing_to_report() {
    let world = World::with_repo();
    world.init("other");
    let report = world.run(&["work"], |world| {
        world.write("work/src/main.rs", "fn main() {}");
        world.git("work", &["add", "."]);
        world.git("work", &["commit", "-qm", "second"]);
        world.git("work", &["switch", "-qc", "topic"]);
        world.git("work", &["gc", "-q"]);
        world.git("work", &["clone", "-q", "../other", "clone"]);
        world.git("work", &["worktree", "add", "-q", "tree"]);
        world.git("work", &["submodule", "--quiet", "add", "../other", "sub"]);
        world.git("work", &["rm", "-qf", "--cached", ".gitmodules"]);
        fs::remove_file(world.path("work/.gitmodules")).unwrap();
    });
    assert!(report.is_empty(), "{report:#?}");
    assert!(report.looked_at > 0);
    world.git("work/clone", &["status"]);
    world.git("work/tree", &["status"]);
    world.git("work/sub", &["status"]);
}

#[test]
fn new_settings_and_sample_hooks_stay_when_git_finds_nothing_to_run_in_them() {
    let world = World::with_repo();
    fs::remove_dir_all(world.path("work/.git/hooks")).unwrap();
    world.git("work", &["config", "extensions.worktreeConfig", "true"]);
    let report = world.run(&["work"], |world| {
        world.git("work", &["sparse-checkout", "set", "src"]);
        world.git("work", &["init", "-q"]);
    });
    assert!(report.is_empty(), "{report:#?}");
    assert!(world.has("work/.git/config.worktree") && world.has("work/.git/hooks"));
}

#[test]
fn work_on_the_host_stays_when_it_continues_beside_a_worktree() {
    let world = World::new();
    world.init("main");
    fs::remove_dir(world.work()).unwrap();
    world.git("main", &["worktree", "add", "-q", "../work"]);
    world.init("other");
    let report = world.run(&["work"], |world| {
        world.git("main", &["switch", "-qc", "users-own"]);
        world.write("main/more", "text");
        world.git("main", &["add", "."]);
        world.git("main", &["commit", "-qm", "more"]);
        world.git("main", &["submodule", "--quiet", "add", "../other", "sub"]);
        world.git("main", &["worktree", "add", "-q", "../third"]);
        world.git("main", &["config", "user.name", "n"]);
    });
    assert!(report.is_empty(), "{report:#?}");
    assert_eq!(world.read("main/.git/HEAD"), "ref: refs/heads/users-own\n");
}

#[test]
fn hooks_of_the_user_stay_when_the_repository_was_not_seen_at_the_start() {
    let world = World::with_repo();
    world.init("work/a/b/nested");
    world.evil("work/a/b/nested/.git/hooks/pre-push");
    std::thread::sleep(std::time::Duration::from_millis(60));
    let roots = [world.work()];
    let blind = git::Budget { entries: 0, ..WHOLE };
    let git = git::discover(&world.host, &roots, false, &[], blind).unwrap();
    assert!(git.stopped_early);
    let input = InspectInput { roots: &roots, git: &git, config_files: &[] };
    let run = inspect::begin(&world.host, &input).unwrap();
    world.git("work/a/b/nested", &["commit", "--allow-empty", "-qm", "x"]);
    world.evil("work/a/b/nested/.git/hooks/pre-commit");
    let report = run.finish();
    // The directory changed, so it is unknown which of its files existed before. Both are moved aside.
    assert!(moved(&report, &world.base).contains(&"work/a/b/nested/.git/hooks/pre-commit".into()));

    world.evil("work/c/.git/hooks/pre-push");
    world.git(".", &["init", "-q", "work/c"]);
    std::thread::sleep(std::time::Duration::from_millis(60));
    let run = inspect::begin(&world.host, &input).unwrap();
    world.git("work/c", &["commit", "--allow-empty", "-qm", "x"]);
    let report = run.finish();
    assert_eq!(moved(&report, &world.base), [""; 0]);
    assert_eq!(report.runs_later[0].path, world.path("work/c/.git/hooks/pre-push"));
    assert!(world.has("work/c/.git/hooks/pre-push"));
}

#[test]
fn files_that_run_later_are_listed_and_left_when_they_are_new() {
    let world = World::with_repo();
    world.write("work/Makefile", "all:");
    std::thread::sleep(std::time::Duration::from_millis(60));
    let planted = [
        ".envrc",
        ".vscode/tasks.json",
        ".claude/settings.json",
        ".husky/pre-commit",
        ".github/workflows/ci.yml",
        "sub/.mcp.json",
        "crate/build.rs",
        "lib/x.pth",
    ];
    let report = world.run(&["work"], |world| {
        for file in planted {
            world.write(&format!("work/{file}"), "x");
        }
        world.write("work/package.json", r#"{"scripts":{"test":"x"}}"#);
        world.write("work/app/package.json", r#"{"scripts":{"postinstall":"x"}}"#);
    });
    let mut named: Vec<_> = report.runs_later.iter().map(|later| later.path.clone()).collect();
    named.sort();
    let mut expected: Vec<_> = planted.iter().map(|file| world.work().join(file)).collect();
    expected.push(world.path("work/app/package.json"));
    expected.sort();
    assert_eq!(named, expected);
    assert!(report.moved.is_empty() && world.has("work/.envrc"));
}

#[test]
fn report_stays_short_when_there_is_much_to_list() {
    let world = World::new();
    let report = world.run(&["work"], |world| {
        (0..200).for_each(|n| world.write(&format!("work/{n}/.envrc"), ""));
    });
    assert_eq!(
        (report.runs_later.len(), report.runs_later_unlisted),
        (MAX_LISTED, 200 - MAX_LISTED)
    );
}

#[test]
fn names_of_any_bytes_survive_the_record_and_the_report() {
    let world = World::new();
    let odd = world.work().join(std::ffi::OsStr::from_bytes(b"\xff\n\x1b[31m"));
    fs::create_dir(&odd).unwrap();
    let output = std::process::Command::new("git").args(["init", "-q"]).current_dir(&odd).status();
    assert!(output.unwrap().success());
    let report = world.run(&["work"], |_| fs::write(odd.join(".git/commondir"), "x").unwrap());
    assert_eq!(report.moved[0].path, odd.join(".git/commondir"));
    assert!(serde_json::to_string(&report).unwrap().contains("255"));
    let recalled = inspect::recall(&world.host, &[world.work()]).unwrap();
    assert_eq!(recalled.known.repositories, [odd.join(".git")]);
    assert!(recalled.known.complete);
}

#[test]
fn record_is_private_and_gone_when_the_run_ends() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::with_repo();
    let run = world.begin(&["work"]);
    let runs = world.path("home/.local/state/agent-sandbox/runs");
    let record = fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&record.path()), mode(&runs)), (0o600, 0o700));
    assert!(run.finish().is_empty());
    assert_eq!(fs::read_dir(&runs).unwrap().count(), 0);
    assert!(
        !world.has("home/.local/state/agent-sandbox/quarantine"),
        "no directory without findings"
    );
}
