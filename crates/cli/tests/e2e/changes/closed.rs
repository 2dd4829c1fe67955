//! Files without any permissions, which even the command cannot read, are part of its changes.

use testkit::World;

use super::change;

#[test]
fn unreadable_files_and_directories_are_shown_and_applied() {
    let world = World::new().file("project/old", "1\n");
    change(
        &world,
        "echo 2 > old; chmod 000 old; mkdir -p d/e; echo y > d/e/y; chmod 000 d/e/y d/e d; echo z > z",
    );
    world.run(["diff", "--name-only"]).succeeds().stdout("d/\nd/e/\nd/e/y\nold\nz\n");
    world.run(["diff"]).succeeds().stdout_contains("+2").stdout_contains("+y");
    world.run(["apply"]).succeeds();
    assert_eq!(world.read("project/d/e/y"), "y\n");
    assert_eq!(world.read("project/old"), "2\n");
    world.run(["diff", "--name-only"]).succeeds().stdout("");
    world.run(["discard", "--yes"]).succeeds();
}
