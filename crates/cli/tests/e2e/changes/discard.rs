//! `discard` discards changes, and the session continues from the base.

use testkit::World;

use super::change;

#[test]
fn discard_throws_everything_away_when_that_is_confirmed() {
    let world = World::new().file("project/a", "1\n");
    change(&world, "echo 2 > a; rm -f b; echo n > n");
    world.run(["discard"]).code(1).stderr_contains("--yes");
    world.run(["diff", "--name-only"]).succeeds().stdout("a\nn\n");
    let mut terminal = world.terminal(["discard"]);
    terminal.wait_for("[y/N]");
    terminal.enter("y");
    terminal.wait().succeeds();
    world.run(["diff", "--name-only"]).succeeds().stdout("");
    change(&world, "cat a; test ! -e n").stdout("1\n");
}

#[test]
fn discard_of_paths_shows_the_base_again() {
    let world = World::new()
        .file("project/a", "1\n")
        .file("project/d/x", "x\n")
        .file("project/d/y", "y\n")
        .file("project/o/x", "x\n");
    change(
        &world,
        "echo 2 > a; rm d/x; echo 2 > d/y; rm -r o; mkdir o; echo n > o/n; mkdir p; echo q > p/q; echo k > k",
    );
    world.run(["discard", "--yes", "a", "d/x", "o", "p"]).succeeds();
    world.run(["diff", "--name-only"]).succeeds().stdout("d/y\nk\n");
    change(&world, "cat a d/x d/y o/x k; test ! -e o/n; test ! -e p").stdout("1\nx\n2\nx\nk\n");
    world.run(["diff", "--name-only"]).succeeds().stdout("d/y\nk\n");
}

#[test]
fn a_path_in_a_directory_that_was_made_again_is_not_discarded_alone() {
    let world = World::new().file("project/o/x", "x\n");
    change(&world, "rm -r o; mkdir o; echo n > o/x");
    world.run(["discard", "--yes", "o/x"]).code(1).stderr_contains("`o`");
    world.run(["discard", "--yes", "o"]).succeeds();
    world.run(["diff", "--name-only"]).succeeds().stdout("");
}
