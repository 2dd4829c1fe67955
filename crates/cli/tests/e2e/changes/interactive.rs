//! `apply --interactive`: hunk by hunk, on a terminal.

use testkit::World;

use super::change;

fn numbers() -> String {
    let lines: Vec<_> = (1..=30).map(|number| number.to_string()).collect();
    lines.join("\n") + "\n"
}

#[test]
fn hunks_are_taken_one_by_one() {
    let world = World::new().file("project/a", numbers());
    change(&world, "sed -i 's/^3$/three/; s/^28$/last/' a; echo x > .envrc; echo n > new");
    world.run(["apply", "--interactive"]).code(2).stderr_contains("terminal");
    let mut terminal = world.terminal(["apply", "-i", "--color=never"]);
    terminal.wait_for("Apply .envrc [");
    terminal.enter("y");
    terminal.wait_for("Apply this hunk to a [");
    terminal.enter("n");
    terminal.wait_for("+last");
    terminal.wait_for("Apply this hunk to a [");
    terminal.enter("y");
    terminal.wait_for("Apply new [");
    terminal.enter("n");
    terminal.wait().succeeds();
    let text = world.read("project/a");
    assert!(text.contains("\n3\n") && text.contains("last"), "{text}");
    assert!(world.has("project/.envrc"), "an answer names it");
    assert!(!world.has("project/new"));
    // What was left is still a change, and only that.
    world.run(["diff"]).succeeds().stdout_contains("+three").stdout_lacks("last");
    world.run(["undo"]).succeeds();
    assert_eq!(world.read("project/a"), numbers());
    world.run(["diff"]).succeeds().stdout_contains("+three").stdout_contains("+last");
}

#[test]
fn a_hunk_can_be_split_and_help_is_there() {
    let world = World::new().file("project/a", "1\n2\n3\n4\n5\n");
    change(&world, "sed -i 's/2/two/; s/4/four/' a");
    let mut terminal = world.terminal(["apply", "-i", "--color=never"]);
    for (wait, answer) in [("?]?", "?"), ("split it", "s"), ("?]?", "y"), ("?]?", "d")] {
        terminal.wait_for(wait);
        terminal.enter(answer);
    }
    terminal.wait().succeeds();
    assert_eq!(world.read("project/a"), "1\ntwo\n3\n4\n5\n");
}

#[test]
fn quitting_keeps_what_was_chosen() {
    let world = World::new();
    change(&world, "echo 1 > a; echo 1 > b; echo 1 > c");
    let mut terminal = world.terminal(["apply", "-i"]);
    for answer in ["y", "q"] {
        terminal.wait_for("?]?");
        terminal.enter(answer);
    }
    terminal.wait().succeeds();
    assert!(world.has("project/a") && !world.has("project/b") && !world.has("project/c"));
}
