//! Selection of the session that a command means, and sessions without a record.

use testkit::World;

use super::{DATA, Up, eventually, supervisor};

#[test]
fn commands_that_mean_the_session_here_ask_for_a_name_when_there_are_several() {
    let world = World::new().dir("project/sub");
    let _guard = Up(&world);
    world.run(["up", "--name", "one"]).succeeds();
    // The control: a single session.
    world.run(["inspect"]).succeeds().stdout_contains("one");
    world.run(["up", "--name", "two"]).succeeds();
    for words in [&["down"][..], &["restart"], &["inspect"], &["logs"], &["attach"]] {
        let run = world.run(words).code(2);
        run.stderr_contains("`one` (")
            .stderr_contains("`two` (")
            .stderr_contains("name one of them");
        world.clone().cwd("project/sub").run(words).code(2).stderr_contains("several sessions");
    }
    for name in ["one", "two"] {
        world.run(["exec", "-s", name, "true"]).succeeds();
    }
    // A session of a subdirectory is nearer.
    let below = world.clone().cwd("project/sub");
    below.run(["up", "--name", "three"]).succeeds();
    below.run(["down"]).succeeds().stderr_contains("Stopped session `three`");
}

#[test]
fn exec_in_a_session_that_is_not_there_is_refused_with_the_nearest_name() {
    let world = World::new().file("project/a", "one\n").dir("other");
    let _guard = Up(&world);
    world.run(["--network=false", "up", "--name", "fix"]).succeeds();
    world.run(["--session", "try", "true"]).succeeds();
    for (words, said) in [
        (&["exec", "-s", "fxi", "true"][..], "did you mean `fix`?"),
        (&["-s", "fixx", "exec", "true"], "did you mean `fix`?"),
        (&["--session", "tyr", "exec", "--", "true"], "did you mean `try`?"),
        (&["exec", "-s", "zzzz", "true"], "known sessions: `fix`, `try`"),
        (&["exec", "-it", "-s", "fxi", "true"], "did you mean `fix`?"),
        (&["--dry-run", "exec", "-s", "fxi", "true"], "did you mean `fix`?"),
        (&["--cow=false", "exec", "-s", "fxi", "true"], "did you mean `fix`?"),
    ] {
        let run = world.run(words).code(125);
        run.stderr_contains("there is no session").stderr_contains(said);
    }
    let invalid = world.run(["exec", "-s", "fix/", "true"]).code(125);
    invalid.stderr_contains("did you mean `fix`?").stderr_lacks("creates one");
    let list = world.run(["ps"]).succeeds().output();
    assert_eq!(list.lines().count(), 3, "{list}");
    // Every form that may create one, and an existing one.
    world.run(["exec", "-s", "try", "true"]).succeeds();
    world.run(["--cow", "exec", "-s", "new", "true"]).succeeds();
    world.run(["-s", "short", "true"]).succeeds();
    world.run(["-s", "dashed", "--", "true"]).succeeds();
    world.run(["ps"]).succeeds().stdout_contains("new").stdout_contains("dashed");
    world.run(["exec", "-s", "short", "true"]).succeeds();
    // The layer of another directory belongs to another session.
    world.clone().cwd("other").run(["exec", "-s", "try", "true"]).code(125);
    // A session that is up is never replaced by a new sandbox.
    world.run(["--cow=false", "exec", "-s", "fix", "true"]).code(2).stderr_contains("no effect");
}

#[test]
fn prune_finds_sandboxes_when_the_record_of_sessions_is_gone() {
    let world = World::new();
    let _guard = Up(&world);
    world.run(["up"]).succeeds();
    let process = supervisor(&world);
    world.run(["prune", "--yes"]).succeeds().stderr_contains("nothing to remove");
    std::fs::remove_file(world.path(DATA).join("sessions.db")).unwrap();
    world.run(["prune", "--dry-run"]).succeeds().stderr_contains("without a session");
    world.run(["prune", "--yes"]).succeeds();
    eventually("its process is gone", || !std::path::Path::new("/proc").join(&process).is_dir());
    assert_eq!(std::fs::read_dir(world.path(DATA).join("up")).unwrap().count(), 0);
}
