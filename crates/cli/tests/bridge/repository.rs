//! Git on the host, in a repository that the agent wrote: none of the repository's programs run.

use std::fs;
use std::os::unix::fs::symlink;

use testkit::World;

use crate::stage::Stage;

/// Creates a repository in the shared directory, with a change that git must read.
fn repository() -> (Stage, World) {
    let stage = Stage::new();
    let world = stage.world.clone().git_init("work");
    // The size does not change, so that git must read the content.
    world.write("work/file", "SHARED\n");
    (stage, world.cwd("work"))
}

/// Writes a program that leaves a mark when it runs.
fn evil(world: &World) -> String {
    let mark = world.path("mark");
    world.write("work/evil", format!("#!/bin/sh\ntouch {}\nexec cat\n", mark.display()));
    world.host(["chmod", "755", "evil"]).succeeds();
    world.path("work/evil").display().to_string()
}

#[test]
fn h5_settings_of_the_repository_run_nothing() {
    for (key, asked, as_user) in [
        ("core.fsmonitor", &["git", "status"][..], &["git", "status"][..]),
        ("diff.external", &["git", "diff"], &["git", "diff"]),
        ("diff.x.textconv", &["git", "diff"], &["git", "diff"]),
        ("diff.x.command", &["git", "diff"], &["git", "diff"]),
        ("filter.x.clean", &["git", "status"], &["git", "status"]),
        ("core.pager", &["git", "log"], &["git", "-p", "log"]),
    ] {
        let (stage, world) = repository();
        let program = evil(&world);
        world.write("work/.gitattributes", "file diff=x filter=x\n");
        world.host(["git", "config", key, &program]).succeeds();
        let answer = stage.ask(asked);
        assert!(!world.has("mark"), "{key} ran");
        answer.denied("git", "cannot run git safely in this repository");
        // The control: plain git obeys the setting. A pager needs a terminal.
        if key != "core.pager" {
            world.host(as_user);
            assert!(world.has("mark"), "{key} does not run at all");
        }
    }
}

#[test]
fn h5_settings_that_appear_after_the_look_are_outranked() {
    // Settings with a fixed name are overridden by ours, whenever they were written.
    let (_, world) = repository();
    let program = evil(&world);
    world.host(["git", "config", "core.fsmonitor", &program]).succeeds();
    let ours = world
        .clone()
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.fsmonitor")
        .env("GIT_CONFIG_VALUE_0", "false");
    ours.host(["git", "status"]).succeeds();
    assert!(!world.has("mark"));
    world.host(["git", "status"]).succeeds();
    assert!(world.has("mark"));
}

#[test]
fn h5_hooks_do_not_run() {
    let stage = Stage::with(&serde_json::json!({ "allowed": [{ "cmd": "git commit", "env": {
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a" } }] }));
    let world = stage.world.clone().git_init("work").cwd("work");
    let program = evil(&world);
    fs::copy(program, world.path("work/.git/hooks/pre-commit")).unwrap();
    let answer = stage.ask(&["git", "commit", "--allow-empty", "-m", "x"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(!world.has("mark"));
    world.host(["git", "commit", "--allow-empty", "-m", "x"]).succeeds();
    assert!(world.has("mark"));
}

#[test]
fn h8_repositories_that_lie_elsewhere_are_refused() {
    let world_of = |stage: &Stage| stage.world.clone().git_init("other");
    let status = &["git", "status"];
    let (stage, world) = repository();
    let other = world_of(&stage).path("other/.git");
    fs::rename(world.path("work/.git"), world.path("work/kept")).unwrap();
    fs::write(world.path("work/.git"), format!("gitdir: {}\n", other.display())).unwrap();
    stage.ask(status).denied("git", "outside the repository");
    fs::remove_file(world.path("work/.git")).unwrap();
    symlink(&other, world.path("work/.git")).unwrap();
    stage.ask(status).denied("git", "leads out");
    fs::remove_file(world.path("work/.git")).unwrap();
    symlink("kept", world.path("work/.git")).unwrap();
    stage.ask(status).denied("git", "outside the repository");
    fs::remove_file(world.path("work/.git")).unwrap();
    fs::rename(world.path("work/kept"), world.path("work/.git")).unwrap();
    assert_eq!(stage.ask(status).code, Some(0));
    fs::write(world.path("work/.git/commondir"), other.to_str().unwrap()).unwrap();
    stage.ask(status).denied("git", "leads outside the repository");
    fs::remove_file(world.path("work/.git/commondir")).unwrap();
    world.host(["git", "config", "core.worktree", "/"]).succeeds();
    stage.ask(status).denied("git", "core.worktree");
}

#[test]
fn h8_a_repository_above_the_shared_directory_is_not_found() {
    let stage = Stage::new();
    let world = stage.world.clone().git_init("");
    let answer = stage.ask(&["git", "status"]);
    assert_eq!(answer.code, Some(128), "{answer:?}");
    world.cwd("work").host(["git", "status"]).succeeds();
}

#[test]
fn git_keeps_what_would_be_destroyed() {
    let stage = Stage::with(&serde_json::json!({ "allowed": ["git"] }));
    let world = stage.world.clone().git_init("work");
    world.write("work/file", "changed\n");
    for argv in [
        &["git", "reset", "--hard"][..],
        &["git", "checkout", "--", "file"],
        &["git", "clean", "-f"],
        &["git", "push", "--force"],
    ] {
        stage.ask(argv).denied("git", "reason: ");
    }
    assert_eq!(world.read("work/file"), "changed\n");
    assert!(stage.ask(&["git", "diff", "--stat"]).out.contains("file"));
}

/// Creates a repository with a submodule whose settings run a program when git inspects it.
fn submodule(stage: &Stage) -> World {
    let world = stage.world.clone().git_init("work").git_init("work/m").cwd("work");
    let program = evil(&world);
    world.write("work/m/in", "one\n");
    world.host(["git", "-C", "m", "add", "in"]).succeeds();
    world.host(["git", "-C", "m", "commit", "-qm", "in"]).succeeds();
    world.host(["git", "add", "m"]).succeeds();
    world.host(["git", "commit", "-qm", "m"]).succeeds();
    // A submodule can declare itself that it wants to be inspected.
    let modules = "[submodule \"m\"]\n path = m\n url = ./m\n ignore = none\n";
    world.write("work/.gitmodules", modules);
    world.host(["git", "-C", "m", "config", "filter.x.clean", &program]).succeeds();
    world.write("work/m/.gitattributes", "in filter=x\n");
    world.write("work/m/in", "two\n");
    assert!(!world.has("mark"));
    world
}

#[test]
fn h5_settings_of_a_submodule_run_nothing() {
    let allowed = serde_json::json!({ "allowed": ["git"] });
    for argv in [
        &["git", "status"][..],
        &["git", "diff"],
        &["git", "add", "-u"],
        &["git", "describe", "--always", "--dirty"],
        &["git", "stash"],
    ] {
        let stage = Stage::with(&allowed);
        let world = submodule(&stage);
        let answer = stage.ask(argv);
        assert!(!world.has("mark"), "{argv:?} ran it: {answer:?}");
        let looks = matches!(argv[1], "status" | "diff");
        assert_eq!(answer.code, Some(u8::from(!looks)), "{answer:?}");
        // The control: plain git enters it.
        world.host(argv);
        assert!(world.has("mark"), "{argv:?}");
    }
}

#[test]
fn h5_repositories_of_this_machine_are_neither_read_nor_pushed_to() {
    let stage = Stage::with(&serde_json::json!({ "allowed": ["git push", "git fetch"] }));
    let world = stage.world.clone().git_init("work").git_init("private").cwd("work");
    let program = evil(&world);
    world.host(["git", "init", "-q", "--bare", "up.git"]).succeeds();
    fs::copy(program, world.path("work/up.git/hooks/post-receive")).unwrap();
    let push = ["git", "push", "./up.git", "HEAD:refs/heads/x"];
    let answer = stage.ask(&push);
    assert!(answer.code == Some(128) && !world.has("mark"), "{answer:?}");
    world.host(["git", "remote", "add", "o", world.path("private").to_str().unwrap()]).succeeds();
    let answer = stage.ask(&["git", "fetch", "o"]);
    assert!(answer.code == Some(128) && answer.err.contains("not allowed"), "{answer:?}");
    world.host(push).succeeds();
    assert!(world.has("mark"));
    world.host(["git", "fetch", "o"]).succeeds();
}

#[test]
fn h5_a_directory_that_an_entry_names_is_looked_at_like_any_other() {
    let probe = World::new().git_init("work").file("secret", "the host's\n");
    let work = probe.path("work");
    let stage = Stage::with(&serde_json::json!({
        "allowed": [{ "cmd": "git status", "cwd": work }, { "cmd": "cat", "cwd": work }],
        "mounts": [{ "container": "/workspace", "host": work }],
    }));
    let world = probe.cwd("work");
    let program = evil(&world);
    symlink("../secret", world.path("work/link")).unwrap();
    stage.ask_in(&["cat", "link"], "/workspace").denied("cat", "leads out");
    stage.ask_in(&["cat", "evil"], "/elsewhere").gave(&world.read("work/evil"));
    assert_eq!(stage.ask_in(&["git", "status"], "/elsewhere").code, Some(0));
    world.host(["git", "config", "filter.x.clean", &program]).succeeds();
    stage.ask_in(&["git", "status"], "/elsewhere").denied("git", "filter.x.clean");
}

#[test]
fn h5_settings_that_are_a_pipe_are_not_read() {
    let (stage, world) = repository();
    assert_eq!(stage.ask(&["git", "status"]).code, Some(0));
    fs::remove_file(world.path("work/.git/config")).unwrap();
    world.host(["mkfifo", ".git/config"]).succeeds();
    stage.ask(&["git", "status"]).denied("git", "not a regular file");
}
