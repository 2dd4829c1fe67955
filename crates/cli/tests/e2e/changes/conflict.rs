//! Nothing that changed on the host meanwhile is ever overwritten.

use testkit::World;

use super::{change, change_as, start};

#[test]
fn w3_text_is_merged_when_both_changed_it_in_different_places() {
    let world = World::new().file("project/a", "1\n2\n3\n4\n5\n");
    change(&world, "sed -i 's/5/five/' a");
    world.write("project/a", "one\n2\n3\n4\n5\n");
    // What is shown is what the session did, not what the host did.
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
    // The control: what does not overlap is applied.
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
