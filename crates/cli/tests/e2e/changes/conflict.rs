//! `apply` never overwrites a change that the host made meanwhile.

use testkit::World;

use super::{change, change_as, start};

#[test]
fn w3_text_is_merged_when_both_changed_it_in_different_places() {
    let world = World::new().file("project/a", "1\n2\n3\n4\n5\n");
    change(&world, "sed -i 's/5/five/' a");
    world.write("project/a", "one\n2\n3\n4\n5\n");
    // `diff` shows the session's changes, not the host's.
    world.run(["diff"]).succeeds().stdout_contains("+five").stdout_lacks("one");
    world.run(["apply"]).succeeds().stderr_contains("merged");
    assert_eq!(world.read("project/a"), "one\n2\n3\n4\nfive\n");
    world.run(["diff", "--name-only"]).succeeds().stdout("");
    world.run(["undo"]).succeeds();
    assert_eq!(world.read("project/a"), "one\n2\n3\n4\n5\n");
    world.run(["diff"]).succeeds().stdout_contains("+five").stdout_lacks("one");
}

#[test]
fn w3_a_conflict_stops_everything_unless_the_rest_is_wanted() {
    let world = World::new().file("project/a", "1\n2\n").file("project/b", "b\n");
    change(&world, "echo layer > a; echo layer > b; echo layer > new; rm -f nothing");
    world.write("project/a", "host\n");
    world.write("project/new", "host\n");
    let run = world.run(["apply"]).code(1);
    assert!(run.messages().contains("conflict: a"), "{run}");
    assert!(run.messages().contains("conflict: new"), "{run}");
    assert_eq!(world.read("project/b"), "b\n");
    world.run(["apply", "--partial"]).code(1);
    assert_eq!(world.read("project/b"), "layer\n");
    assert_eq!(world.read("project/a"), "host\n");
    assert_eq!(world.read("project/new"), "host\n");
}

#[test]
fn w3_a_file_that_the_host_changed_is_not_deleted() {
    let world = World::new().file("project/d/a", "1\n").file("project/d/b", "1\n");
    change(&world, "rm -r d");
    world.write("project/d/b", "2\n");
    world.write("project/d/c", "new\n");
    let run = world.run(["apply"]).code(1);
    assert!(run.messages().contains("d/b") && run.messages().contains("d/c"), "{run}");
    world.run(["apply", "--partial"]).code(1);
    assert_eq!(world.read("project/d/b"), "2\n");
    assert_eq!(world.read("project/d/c"), "new\n");
    assert!(!world.has("project/d/a"));
}

#[test]
fn w10_the_second_session_meets_what_the_first_applied() {
    let world = World::new().file("project/a", "1\n").file("project/b", "1\n");
    for name in ["one", "two"] {
        let script = format!("echo {name} > a; echo {name} >> b.{name}");
        change_as(&world, name, &script);
    }
    world.run(["apply", "-s", "one"]).succeeds();
    world.run(["apply", "-s", "two"]).code(1).stderr_contains("conflict: a");
    assert_eq!(world.read("project/a"), "one\n");
    assert!(!world.has("project/b.two"));
    // The control: changes that do not overlap are applied.
    world.run(["apply", "-s", "two", "b.two"]).succeeds();
}

#[test]
fn a_host_file_that_changed_under_a_running_session_is_never_overwritten() {
    let world = World::new().file("project/a", "1\n");
    let mut running = start(&world, "s", "echo ready; read line; echo layer > a");
    running.wait_for("ready");
    world.write("project/a", "host\n");
    running.send("\n");
    running.wait().succeeds();
    world.run(["apply", "-s", "s"]).code(1);
    assert_eq!(world.read("project/a"), "host\n");
}

#[cfg(feature = "setup")]
#[test]
fn a_file_that_the_host_removed_under_a_running_session_is_not_made_again_unless_named() {
    for engine in ["overlay", "agentfs"] {
        let world = World::new().file("project/a", "1\n").file("project/d/b", "1\n");
        remove_under(&world, engine);
    }
}

fn remove_under(world: &World, engine: &str) {
    let script = "echo layer >> a; echo layer >> d/b; echo new > d/new; echo ready; read line";
    let session = [&format!("--cow={engine}"), "--session", "t", "sh", "-ec", script];
    let mut running = world.clone().without_env("AGENT_SANDBOX_MOUNTS").spawn(session);
    running.wait_for("ready");
    world.host(["rm", "a", "d/b"]).succeeds();
    running.send("\n");
    running.wait().succeeds().stderr_contains("changed on the host meanwhile");
    let run = world.run(["apply", "-s", "t"]).code(1).stderr_contains("deleted on the host");
    assert!(!world.has("project/a") && !world.has("project/d/b"), "{engine}: {run}");
    world.run(["apply", "-s", "t", "--partial"]).code(1);
    assert!(!world.has("project/a") && !world.has("project/d/b"), "{engine}: {run}");
    assert_eq!(world.read("project/d/new"), "new\n", "{engine}");
    // Naming the path recreates the file.
    world.run(["apply", "-s", "t", "a"]).succeeds();
    assert_eq!(world.read("project/a"), "1\nlayer\n", "{engine}");
}

#[test]
fn a_file_that_the_host_removed_after_the_session_is_not_made_again_unless_named() {
    let world = World::new().file("project/a", "1\n").file("project/b", "1\n");
    change(&world, "echo layer > a; echo layer > b");
    world.host(["rm", "a"]).succeeds();
    world
        .run(["apply"])
        .code(1)
        .stderr_contains("conflict: a")
        .stderr_contains("deleted on the host");
    assert!(!world.has("project/a"));
    world.run(["apply", "a"]).succeeds();
    assert_eq!(world.read("project/a"), "layer\n");
}

#[cfg(feature = "setup")]
#[test]
fn what_is_new_beside_which_the_host_worked_is_applied_with_a_word_about_it() {
    for engine in ["overlay", "agentfs"] {
        let world = World::new().file("project/a", "1\n");
        let script = "echo new > new; mv a b; echo ready; read line";
        let session = [&format!("--cow={engine}"), "--session", "s", "sh", "-ec", script];
        let mut running = world.clone().without_env("AGENT_SANDBOX_MOUNTS").spawn(session);
        running.wait_for("ready");
        world.write("project/other", "host\n");
        running.send("\n");
        running.wait().succeeds();
        world.run(["apply", "-s", "s"]).succeeds().stderr_contains("its directory changed");
        assert_eq!(world.read("project/new"), "new\n", "{engine}");
        assert_eq!(world.read("project/b"), "1\n", "{engine}");
        assert!(!world.has("project/a"), "{engine}");
    }
}
