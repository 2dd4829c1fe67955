//! `apply --interactive`: questions for each hunk, on a terminal.

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
    // The rest is still a change of the session.
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

#[test]
fn what_the_host_changes_while_the_questions_are_open_is_merged_or_kept() {
    for (host, answers, merged) in [
        // Another part of the file: both changes are merged.
        (numbers().replace("\n15\n", "\nhost\n"), ["y", "y"], true),
        // The same part: nothing is applied.
        (numbers().replace("\n3\n", "\nhost\n"), ["y", "y"], false),
        (numbers().replace("\n3\n", "\nhost\n"), ["y", "n"], false),
    ] {
        let world = World::new().file("project/a", numbers()).file("project/gone", "1\n");
        change(&world, "sed -i 's/^3$/three/; s/^28$/last/' a");
        let mut terminal = world.terminal(["apply", "-i", "--color=never"]);
        terminal.wait_for("+three");
        terminal.wait_for("Apply this hunk to a [");
        terminal.enter(answers[0]);
        terminal.wait_for("+last");
        terminal.wait_for("Apply this hunk to a [");
        world.write("project/a", &host);
        terminal.enter(answers[1]);
        let run = terminal.wait();
        let text = world.read("project/a");
        if merged {
            run.succeeds();
            assert!(text.contains("three") && text.contains("host"), "{text}");
            world.run(["undo"]).succeeds();
            assert_eq!(world.read("project/a"), host);
        } else {
            run.code(1);
            assert_eq!(text, host, "the host's edit stays");
        }
    }
}

#[test]
fn a_file_that_comes_or_goes_on_the_host_while_the_questions_are_open_is_kept() {
    let world = World::new().file("project/gone", "1\n");
    change(&world, "rm gone; echo session > new");
    let mut terminal = world.terminal(["apply", "-i", "--color=never"]);
    terminal.wait_for("Apply gone [");
    terminal.enter("y");
    terminal.wait_for("Apply new [");
    world.write("project/gone", "host\n");
    world.write("project/new", "host\n");
    terminal.enter("y");
    terminal.wait().code(1);
    assert_eq!(world.read("project/gone"), "host\n");
    assert_eq!(world.read("project/new"), "host\n");
}

#[test]
fn the_executable_bit_is_a_question_of_its_own() {
    for (mode, first, executable, three) in [
        ("y", "n", true, false),
        ("n", "y", false, true),
        ("y", "y", true, true),
        ("n", "n", false, false),
    ] {
        let world = World::new().file("project/a", numbers());
        change(&world, "sed -i 's/^3$/three/; s/^28$/last/' a; chmod +x a");
        let mut terminal = world.terminal(["apply", "-i", "--color=never"]);
        terminal.wait_for("new mode 100755");
        terminal.wait_for("Apply this mode change to a [");
        terminal.enter(mode);
        terminal.wait_for("+three");
        terminal.wait_for("Apply this hunk to a [");
        terminal.enter(first);
        terminal.wait_for("+last");
        terminal.wait_for("Apply this hunk to a [");
        terminal.enter("n");
        terminal.wait().succeeds();
        let is_executable = world.host(["test", "-x", "a"]).status().success();
        assert_eq!(is_executable, executable, "{mode} {first}");
        assert_eq!(world.read("project/a").contains("three"), three, "{mode} {first}");
        // The rest is still a change of the session.
        let diff = world.run(["diff"]).succeeds().output();
        assert_eq!(diff.contains("new mode"), !executable, "{mode} {first}: {diff}");
        assert_eq!(diff.contains("+three"), !three, "{mode} {first}: {diff}");
        assert!(diff.contains("+last"), "{mode} {first}: {diff}");
    }
}
