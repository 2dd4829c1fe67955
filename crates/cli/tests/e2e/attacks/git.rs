//! G*, R-A3 to R-A6: settings and hooks that the host's next `git` would run.

use testkit::{Run, World};

use super::inside;

/// A program that leaves a mark when the host runs it.
fn world() -> World {
    World::new()
        .exec_file("project/evil.sh", "#!/bin/sh\ntouch \"$HOME/pwned\"\n")
        .git_init("project")
}

const STATUS: &[&str] = &["git", "status"];
const COMMIT: &[&str] = &["git", "commit", "-q", "--allow-empty", "-m", "next"];

/// Plants files inside, then runs git on the host in `dir`. Expects no mark, and a mark without the sandbox.
#[track_caller]
fn is_stopped(make: impl Fn() -> World, plant: &str, dir: &str, then: &[&str]) -> Run {
    let attacked = make();
    let run = attacked.run(["--cmd", "git=true", "sh", "-c", plant]);
    attacked.clone().cwd(dir).host(then);
    assert!(!attacked.has("home/pwned"), "the host obeyed\n{run}");
    let control = make();
    control.host(["sh", "-c", plant]);
    control.clone().cwd(dir).host(then);
    assert!(control.has("home/pwned"), "the attack does not work without the sandbox");
    run
}

#[test]
fn g1_a_planted_hook_does_not_run() {
    is_stopped(world, "cp evil.sh .git/hooks/pre-commit", "project", COMMIT);
    let without = || {
        let world = world();
        std::fs::remove_dir_all(world.path("project/.git/hooks")).unwrap();
        world
    };
    let plant = "mkdir .git/hooks; cp evil.sh .git/hooks/pre-commit";
    is_stopped(without, plant, "project", COMMIT).stderr_contains("moved aside");
}

#[test]
fn g2_settings_that_run_programs_cannot_be_planted() {
    for plant in [
        "git config core.fsmonitor ./evil.sh",
        "printf '[core]\\n fsmonitor = ./evil.sh\\n' >> .git/config",
        "cp .git/config c; printf '[core]\\n fsmonitor = ./evil.sh\\n' >> c; mv c .git/config",
        "mv .git g; cp -r g .git; printf '[core]\\n fsmonitor = ./evil.sh\\n' >> .git/config",
    ] {
        is_stopped(world, plant, "project", STATUS);
    }
    is_stopped(
        world,
        "git config core.hooksPath hooks; mkdir hooks; cp evil.sh hooks/pre-commit",
        "project",
        COMMIT,
    );
    let diff = &["git", "-c", "pager.diff=false", "diff"];
    is_stopped(world, "git config diff.external ./evil.sh; echo >> evil.sh", "project", diff);
}

#[test]
fn g3_r_a4_hooks_of_nested_repositories_do_not_run() {
    let nested = || world().git_init("project/deep/down/repo");
    let plant = "cp evil.sh deep/down/repo/.git/hooks/pre-commit";
    is_stopped(nested, plant, "project/deep/down/repo", COMMIT);
    let plant = "printf '[core]\\n fsmonitor = ../../../evil.sh\\n' >> deep/down/repo/.git/config";
    is_stopped(nested, plant, "project/deep/down/repo", STATUS);
}

#[test]
fn g3_r_a4_hooks_of_submodules_do_not_run() {
    let with_module = || {
        let world = world().git_init("outside/module");
        world
            .host([
                "git",
                "-c",
                "protocol.file.allow=always",
                "submodule",
                "--quiet",
                "add",
                "../outside/module",
                "sub",
            ])
            .succeeds();
        world.host(["git", "commit", "-q", "-m", "sub"]).succeeds();
        world
    };
    is_stopped(with_module, "cp evil.sh .git/modules/sub/hooks/pre-commit", "project/sub", COMMIT);
}

#[test]
fn g4_a_tree_shaped_like_a_bare_repository_does_not_run() {
    let plant = "mkdir -p sub && cd sub && git init -q --bare . && git config core.bare false && \
                 git config core.worktree . && git config core.fsmonitor \"$PWD/../evil.sh\"";
    is_stopped(world, plant, "project/sub", STATUS).stderr_contains("moved aside");
}

#[test]
fn g5_attributes_find_no_filter_to_run() {
    let plant =
        "git config filter.evil.clean ./evil.sh; echo '* filter=evil' > .gitattributes; echo > new";
    is_stopped(world, plant, "project", &["git", "add", "new"]);
    let plant = "git config filter.evil.clean ./evil.sh; mkdir -p .git/info; echo '* filter=evil' > .git/info/attributes; echo > new";
    is_stopped(world, plant, "project", &["git", "add", "new"]);
}

#[test]
fn g6_a_redirected_git_file_is_not_obeyed() {
    let plant = "cp -r .git elsewhere; printf '[core]\\n fsmonitor = ./evil.sh\\n' >> elsewhere/config; \
                 mv .git old && echo 'gitdir: elsewhere' > .git";
    is_stopped(world, plant, "project", STATUS);
    let worktree = || {
        let world = world();
        world.host(["git", "worktree", "add", "-q", "tree"]).succeeds();
        world
    };
    let plant = "cp -r .git elsewhere; printf '[core]\\n fsmonitor = ../evil.sh\\n' >> elsewhere/config; \
                 echo \"gitdir: $PWD/elsewhere\" > tree/.git";
    is_stopped(worktree, plant, "project/tree", STATUS);
}

#[test]
fn r_a3_commondir_is_not_obeyed() {
    let plant = "cp -r .git copy; printf '[alias]\\n zap = !./evil.sh\\n' >> copy/config; echo ../copy > .git/commondir";
    is_stopped(world, plant, "project", &["git", "zap"]).stderr_contains("moved aside");
}

#[test]
fn r_a5_a_new_repository_is_not_obeyed() {
    let no_repository =
        || World::new().exec_file("project/evil.sh", "#!/bin/sh\ntouch \"$HOME/pwned\"\n");
    let plant = "git init -q && git config core.fsmonitor ./evil.sh";
    is_stopped(no_repository, plant, "project", STATUS).stderr_contains("moved aside");
    let plant = "git init -q new && cd new && git config core.fsmonitor ../evil.sh";
    is_stopped(world, plant, "project/new", STATUS).stderr_contains("moved aside");
}

#[test]
fn r_a6_a_worktree_cannot_change_its_parent() {
    let worktree = || {
        let world = World::new()
            .exec_file("outside/evil.sh", "#!/bin/sh\ntouch \"$HOME/pwned\"\n")
            .git_init("outside");
        std::fs::remove_dir(world.path("project")).unwrap();
        world
            .clone()
            .cwd("outside")
            .host(["git", "worktree", "add", "-q", "../project"])
            .succeeds();
        world
    };
    is_stopped(worktree, "cp evil.sh ../outside/.git/hooks/pre-commit", "outside", COMMIT);
    is_stopped(
        worktree,
        "printf '[core]\\n fsmonitor = ./evil.sh\\n' >> ../outside/.git/config",
        "outside",
        STATUS,
    );
    inside(&worktree(), "git commit -q --allow-empty -m works").succeeds();
}

#[test]
fn fs7_a_case_twin_of_git_is_not_left_behind() {
    let plant = "cp -r .git .GIT; printf '[core]\\n fsmonitor = ./evil.sh\\n' >> .GIT/config";
    // On a case-sensitive file system, as here, a second step is needed to make it a repository.
    let later = &["sh", "-c", "mv .git old && mv .GIT .git && git status || mv old .git"];
    is_stopped(world, plant, "project", later).stderr_contains("moved aside");
}

#[test]
fn r_a3_what_a_killed_run_planted_is_gone_before_the_next() {
    let world = world();
    let plant = "cp -r .git copy; printf '[alias]\\n zap = !./evil.sh\\n' >> copy/config; echo ../copy > .git/commondir; echo planted; sleep 60";
    let run = world.spawn(["sh", "-c", plant]);
    run.wait_for("planted");
    run.signal(testkit::Signal::KILL);
    run.wait().killed_by(testkit::Signal::KILL);
    assert!(world.has("project/.git/commondir"));
    world.run(["true"]).succeeds().stderr_contains("moved aside");
    world.host(["git", "zap"]).fails();
    assert!(!world.has("home/pwned"));
}

#[test]
fn r_a3_what_keeps_writing_has_ended_before_the_look() {
    let world = world();
    let plant = "setsid sh -c 'while :; do echo ../evil > .git/commondir; done' >/dev/null 2>&1 &";
    for _ in 0..testkit::rounds(20, 500) {
        inside(&world, &format!("{plant} {plant} {plant} sleep 0.02; exit 0")).succeeds();
        // Gives surviving processes time to write again.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!world.has("project/.git/commondir"), "written after the run had ended");
    }
    world.host(["sh", "-c", "echo ../evil > .git/commondir"]).succeeds();
    assert!(world.has("project/.git/commondir"), "the control");
}
