//! Planted files: git acts on them without the scan, and the scan reverts them.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::attacks::{ATTACKS, Attack};
use super::world::{World, moved};
use crate::inspect::{self, Why};

#[test]
fn planting_is_undone_when_the_run_ends() {
    for Attack { id, before, plant, then: (dir, git) } in ATTACKS {
        let world = World::new();
        before(&world);
        plant(&world);
        world.try_git(dir, git);
        assert!(world.ran(), "{id}: without the scan, the host's git runs it");

        let world = World::new();
        before(&world);
        let report = world.run(&["work"], plant);
        world.try_git(dir, git);
        assert!(!world.ran(), "{id}: after the scan, it does not; {report:#?}");
        assert!(!report.moved.is_empty(), "{id}: it is reported");
        assert_eq!(report.errors, [], "{id}");
    }
}

#[test]
fn planting_is_undone_by_the_next_run_when_the_run_was_killed() {
    for Attack { id, before, plant, then: (dir, git) } in ATTACKS {
        let world = World::new();
        before(&world);
        let run = world.begin(&["work"]);
        plant(&world);
        kill(&world, run);
        let elsewhere = inspect::recall(&world.host, &[world.path("home")]).unwrap();
        assert!(elsewhere.report.is_empty(), "{id}: a run in another tree leaves it alone");
        let recalled = inspect::recall(&world.host, &[world.work()]).unwrap();
        world.try_git(dir, git);
        assert!(!world.ran(), "{id}");
        assert!(!recalled.report.moved.is_empty(), "{id}");
        let again = inspect::recall(&world.host, &[world.work()]).unwrap();
        assert!(again.report.is_empty(), "{id}: a second scan finds nothing");
    }
}

/// Renames the record to that of a process that has ended.
fn kill(world: &World, run: inspect::Run) {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let id = run.id();
    let own = std::process::id().to_string();
    let dead = id.replacen(&format!("-{own}-"), &format!("-{}-", child.id()), 1);
    let runs = world.path("home/.local/state/agent-sandbox/runs");
    fs::rename(runs.join(format!("{id}.0.json")), runs.join(format!("{dead}.0.json"))).unwrap();
    drop(run);
}

#[test]
fn recall_leaves_a_run_alone_when_its_process_lives() {
    let world = World::with_repo();
    let run = world.begin(&["work"]);
    world.evil_config("work/.git/config");
    assert!(inspect::recall(&world.host, &[world.work()]).unwrap().report.is_empty());
    assert_eq!(run.finish().moved.len(), 1);
}

#[test]
fn git_twin_is_treated_like_git_when_its_case_differs() {
    let world = World::with_repo();
    let report = world.run(&["work"], |world| {
        world.git(".", &["init", "-q", "work/new"]);
        fs::rename(world.path("work/new/.git"), world.path("work/new/.GIT")).unwrap();
        world.evil_config("work/new/.GIT/config");
    });
    assert_eq!(moved(&report, &world.base), ["work/new/.GIT/config"]);
}

#[test]
fn config_is_left_alone_when_only_harmless_settings_change() {
    let world = World::with_repo();
    world.git("work", &["config", "core.pager", "less"]);
    let report = world.run(&["work"], |world| {
        world.git("work", &["remote", "add", "origin", "https://host/x.git"]);
    });
    assert!(report.is_empty(), "{report:?}");
    assert!(world.read("work/.git/config").contains("https://host/x.git"));
}

#[test]
fn nothing_outside_is_touched_when_links_lead_there() {
    let world = World::with_repo();
    fs::remove_dir_all(world.path("work/.git/info")).unwrap();
    fs::remove_dir_all(world.path("work/.git/hooks")).unwrap();
    for file in ["outside/attributes", "outside/pre-commit", "outside/config", "outside/tasks.json"]
    {
        world.write(file, "mine");
    }
    let report = world.run(&["work"], |world| {
        symlink(world.path("outside"), world.path("work/.git/info")).unwrap();
        symlink(world.path("outside"), world.path("work/.git/hooks")).unwrap();
        symlink(world.path("outside/config"), world.path("work/.git/config.worktree")).unwrap();
        symlink(world.path("outside"), world.path("work/.vscode")).unwrap();
        symlink(world.path("outside"), world.path("work/deep")).unwrap();
    });
    let mut names = moved(&report, &world.base);
    names.sort();
    assert_eq!(names, ["work/.git/config.worktree", "work/.git/hooks", "work/.git/info"]);
    assert_eq!(report.errors, []);
    for file in ["outside/attributes", "outside/pre-commit", "outside/config", "outside/tasks.json"]
    {
        assert_eq!(world.read(file), "mine");
    }
}

#[test]
fn our_own_config_is_moved_aside_when_it_appears() {
    let world = World::new();
    let report = world.run(&["work"], |world| world.write("work/.agent-sandbox.json", "{}"));
    assert_eq!(moved(&report, &world.base), ["work/.agent-sandbox.json"]);
    assert_eq!(report.moved[0].why, Why::PlantedConfig);
    assert_eq!(fs::read_to_string(&report.moved[0].to).unwrap(), "{}", "nothing is lost");
}

#[test]
fn findings_are_copied_when_the_state_is_on_another_filesystem() {
    let mut world = World::with_repo();
    fs::remove_dir_all(world.path("work/.git/hooks")).unwrap();
    let shm = tempfile::tempdir_in("/dev/shm").expect("a second filesystem at /dev/shm");
    world.host.env.insert("XDG_STATE_HOME".into(), shm.path().into());
    let report = world.run(&["work"], |world| {
        world.evil("work/.git/hooks/pre-commit");
        symlink("/nowhere", world.path("work/.git/hooks/pre-push")).unwrap();
    });
    assert_eq!(moved(&report, &world.base), ["work/.git/hooks"]);
    let to = &report.moved[0].to;
    assert!(to.starts_with(shm.path()) && to.join("pre-commit").is_file());
    assert_eq!(fs::read_link(to.join("pre-push")).unwrap().to_str(), Some("/nowhere"));
    assert!(!world.has("work/.git/hooks"));
}

#[test]
fn findings_are_renamed_in_place_when_they_are_too_large_to_copy() {
    let mut world = World::with_repo();
    let shm = tempfile::tempdir_in("/dev/shm").expect("a second filesystem at /dev/shm");
    world.host.env.insert("XDG_STATE_HOME".into(), shm.path().into());
    fs::remove_dir_all(world.path("work/.git/hooks")).unwrap();
    let report = world.run(&["work"], |world| {
        world.evil("work/.git/hooks/pre-commit");
        (0..3000).for_each(|n| world.write(&format!("work/.git/hooks/{n}"), ""));
    });
    assert_eq!(report.moved.len(), 1);
    assert_eq!(report.moved[0].to.parent(), Some(world.path("work/.git").as_path()));
    assert!(!world.has("work/.git/hooks"));
}
