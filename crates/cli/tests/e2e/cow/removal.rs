//! `rm` and `prune` never remove unapplied work without a question.

use testkit::World;

use super::{cow, place};

const DATA: &str = "home/.local/share/agent-sandbox";

/// Creates a project, and the session `fix` with one changed file.
fn changed() -> World {
    let world = place().file("project/a", "one\n");
    cow(&world, &["-s", "fix"], "echo two >> a").succeeds();
    world
}

#[track_caller]
fn still_there(world: &World, name: &str) {
    world.run(["ps"]).succeeds().stdout_contains(name);
}

#[test]
fn rm_asks_about_work_that_was_not_applied() {
    let world = changed();
    let refused = world.run(["rm", "fix"]).code(1);
    refused
        .stderr_contains("unapplied changes of `fix` (1 file changed, 1 line added")
        .stderr_contains("--yes");
    still_there(&world, "fix");
    let mut asked = world.terminal(["rm", "fix"]);
    asked.wait_for("[y/N]");
    asked.enter("n");
    asked.wait().code(1).stdout_contains("nothing was removed");
    cow(&world, &["-s", "fix"], "cat a").succeeds().stdout("one\ntwo\n");
    let mut asked = world.terminal(["rm", "fix"]);
    asked.wait_for("[y/N]");
    asked.enter("y");
    asked.wait().succeeds();
    world.run(["ps"]).succeeds().stdout("");
    // The control: applied changes are in the project and need no question.
    cow(&world, &["-s", "fix"], "echo two >> a").succeeds();
    world.run(["apply", "-s", "fix"]).succeeds();
    world.run(["rm", "fix"]).succeeds();
    assert_eq!(world.read("project/a"), "one\ntwo\n");
    // A session without changes needs no question, either.
    cow(&world, &["-s", "idle"], "true").succeeds();
    world.run(["rm", "idle"]).succeeds();
}

#[test]
fn rm_counts_snapshots_forks_directories_and_deletions_as_work() {
    let world = place().file("project/a", "one\n").file("project/gone", "");
    cow(&world, &["-s", "dir"], "mkdir -p x/y").succeeds();
    cow(&world, &["-s", "less"], "rm gone").succeeds();
    cow(&world, &["-s", "base"], "echo two >> a").succeeds();
    world.run(["fork", "-s", "base", "fork"]).succeeds();
    world.run(["rm", "--yes", "base"]).succeeds();
    cow(&world, &["-s", "kept"], "echo two >> a").succeeds();
    world.run(["snapshot", "-s", "kept"]).succeeds();
    world.run(["discard", "-s", "kept", "--yes"]).succeeds();
    for (name, what) in [
        ("dir", "directories changed"),
        ("less", "1 file changed"),
        ("fork", "1 file changed"),
        ("kept", "1 snapshot"),
    ] {
        world
            .run(["rm", name])
            .code(1)
            .stderr_contains(&format!("`{name}` ("))
            .stderr_contains(what);
        world.run(["prune", "--older-than", "0", "--yes"]).succeeds();
        still_there(&world, name);
    }
}

#[test]
fn rm_of_several_removes_none_when_one_has_work() {
    let world = changed();
    cow(&world, &["-s", "idle"], "true").succeeds();
    cow(&world, &["-s", "more"], "echo new > n").succeeds();
    let refused = world.run(["rm", "idle", "fix", "more"]).code(1);
    refused.stderr_contains("`fix` (").stderr_contains("`more` (").stderr_lacks("`idle`");
    for name in ["idle", "fix", "more"] {
        still_there(&world, name);
    }
    world.run(["rm", "--yes", "idle", "fix", "more"]).succeeds();
    world.run(["ps"]).succeeds().stdout("");
}

#[cfg(feature = "setup")]
#[test]
fn rm_keeps_the_originals_of_an_interrupted_apply() {
    let world = place().file("project/a", "one\n").file("project/b", "one\n");
    cow(&world, &["-s", "fix"], "echo two > a; echo two > b").succeeds();
    // Killed when it moves the second file into place.
    let killed = world.killed_at("renameat2", 2, &["apply", "-s", "fix", "--yes"]);
    assert!(!killed.status().success(), "{killed}");
    world.run(["rm", "fix"]).code(1).stderr_contains("originals of an interrupted apply");
    world.run(["prune", "--older-than", "0", "--yes"]).succeeds();
    // The control.
    world.run(["undo", "-s", "fix"]).succeeds();
    assert_eq!(
        (world.read("project/a"), world.read("project/b")),
        ("one\n".into(), "one\n".into())
    );
}

#[test]
fn rm_of_a_session_that_is_up_asks_before_anything_is_taken_down() {
    let world = place().file("project/a", "one\n");
    world.run(["--cow", "up", "--name", "box"]).succeeds();
    let sh = |script: &str| world.run(["exec", "-s", "box", "sh", "-c", script]);
    sh("echo two >> a").succeeds();
    world.run(["rm", "box"]).code(1).stderr_contains("`box` (1 file changed");
    sh("cat a").succeeds().stdout("one\ntwo\n");
    world.run(["down", "box"]).succeeds();
    world.run(["rm", "box"]).code(1).stderr_contains("`box` (1 file changed");
    world.run(["apply", "-s", "box"]).succeeds();
    world.run(["rm", "box"]).succeeds();
    world.run(["--cow", "up", "--name", "box"]).succeeds();
    sh("echo three >> a").succeeds();
    world.run(["rm", "--yes", "box"]).succeeds();
    assert_eq!(world.read("project/a"), "one\ntwo\n");
    world.run(["ps"]).succeeds().stdout("");
}

#[test]
fn prune_keeps_work_whose_base_is_gone_or_whose_record_cannot_be_read() {
    let world = changed();
    cow(&world, &["-s", "idle"], "true").succeeds();
    std::fs::rename(world.path("project"), world.path("away")).unwrap();
    let elsewhere = world.clone().dir("other").cwd("other");
    let pruned = elsewhere.run(["prune", "--yes"]).succeeds();
    pruned.stderr_contains("idle").stderr_contains("kept fix: it has unapplied changes");
    std::fs::rename(world.path("away"), world.path("project")).unwrap();
    cow(&world, &["-s", "fix"], "cat a").succeeds().stdout("one\ntwo\n");
    // A record that this version cannot read.
    let sessions = world.path(DATA).join("sessions");
    let all = std::fs::read_dir(&sessions).unwrap().flatten();
    let ids: Vec<_> = all.filter(|entry| entry.path().is_dir()).collect();
    let [fix] = &ids[..] else { panic!("one session, not {ids:?}") };
    let (record, id) = (fix.path().join("session.json"), fix.file_name());
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace("\"format\": 1", "\"format\": 99")).unwrap();
    let kept = world.run(["prune", "--older-than", "0", "--yes"]).succeeds();
    kept.stderr_contains("cannot be read").stderr_contains("agent-sandbox prune ");
    std::fs::write(&record, &text).unwrap();
    cow(&world, &["-s", "fix"], "cat a").succeeds().stdout("one\ntwo\n");
    // By name, and what a killed removal left behind.
    std::fs::write(&record, "{").unwrap();
    world.run(["prune", "--yes", id.to_str().unwrap()]).succeeds();
    assert!(!sessions.join(&id).is_dir());
    std::fs::create_dir(sessions.join("left")).unwrap();
    world.run(["prune", "--yes"]).succeeds();
    assert!(!sessions.join("left").is_dir());
}
