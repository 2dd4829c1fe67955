//! Symlinks in rules, symlinks planted for the next run, and dangling paths.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use testkit::World;

use crate::probe::{assert_views, sh};

#[test]
fn rule_on_a_symlink_rules_what_it_leads_to() {
    let world = World::new()
        .file("project/real/file", "x")
        .symlink("project/link", "real")
        .symlink("project/chain", "link")
        .file("outside/keys/one", "x")
        .symlink("home/keys", "../outside/keys");
    let views =
        [("project/real/file", "ro"), ("project/link/file", "ro"), ("project/chain/file", "ro")];
    assert_views(&world, &["--ro", "chain"], &views);
    assert_views(
        &world,
        &["--exclude", "~/keys"],
        &[("outside/keys/one", "hidden"), ("home/keys/one", "hidden")],
    );
}

#[test]
fn secret_behind_a_symlink_is_hidden_where_it_lies() {
    let world = World::new()
        .file("home/dotfiles/ssh/id_ed25519", "x")
        .symlink("home/.ssh", "dotfiles/ssh")
        .file("home/dotfiles/netrc", "x")
        .symlink("home/.netrc", "dotfiles/netrc")
        .file("home/dotfiles/vimrc", "x");
    assert_views(
        &world,
        &[],
        &[
            ("home/.ssh/id_ed25519", "hidden"),
            ("home/dotfiles/ssh/id_ed25519", "hidden"),
            ("home/.netrc", "hidden"),
            ("home/dotfiles/netrc", "hidden"),
            ("home/dotfiles/vimrc", "ro"),
        ],
    );
}

#[test]
fn link_of_the_users_own_opens_what_it_leads_to() {
    let world = World::new().file("outside/data/file", "x").symlink("home/data", "../outside/data");
    assert_views(&world, &["--rw", "~/data"], &[("outside/data/file", "rw")]);
    assert_views(&world, &[], &[("outside/data/file", "ro")]);
}

#[test]
fn symlink_planted_for_the_next_run_opens_nothing() {
    let world = World::new()
        .file("home/work/notes", "x")
        .file("home/.config/agent-sandbox/config.toml", "filesystem.rw = ['build']\n");
    world.run(sh("ln -s ~/work build")).succeeds().stderr_lacks("not applied");
    let run = world.run(sh("touch ~/work/evil")).fails();
    run.stderr_contains("`build`").stderr_contains("follows a symlink");
    assert!(!world.has("home/work/evil"));
    world.write("home/.config/agent-sandbox/config.toml", "filesystem.rw = ['~/work']\n");
    world.run(sh("touch ~/work/meant")).succeeds();
}

#[test]
fn symlinked_parent_planted_for_the_next_run_opens_nothing() {
    let world = World::new()
        .file("home/work/out/notes", "x")
        .file("home/.config/agent-sandbox/config.toml", "filesystem.rw = ['build/out']\n");
    world.run(sh("ln -s ~/work build")).succeeds();
    world.run(sh("touch ~/work/out/evil")).fails().stderr_contains("not applied");
}

#[test]
fn project_may_be_reached_by_a_symlink() {
    let world = World::new().file("project/file", "x").symlink("alias", "project").cwd("alias");
    assert_views(
        &world,
        &["--ro", "file"],
        &[("project", "rw"), ("project/file", "ro"), ("alias/file", "ro")],
    );
    let other =
        World::new().file("project/file", "x").symlink("home/alias", "../project").cwd("home");
    let alias = other.path("home/alias").display().to_string();
    other.run(["-C", &alias, "touch", "made"]).succeeds();
    assert!(other.has("project/made"));
}

#[test]
fn paths_that_do_not_exist_are_no_error_and_are_not_made() {
    let world = World::new().file("project/file", "x");
    for path in ["no/such/path", "~/no/such", "/no/such", "file/below/a/file", "dangling"] {
        let world = world.clone();
        for flag in ["--ro", "--rw", "--exclude"] {
            world.run([flag, path, "true"]).succeeds();
        }
    }
    assert!(!world.has("project/no") && !world.has("home/no"));
    let world = world.symlink("project/dangling", "nowhere");
    world.run(["--exclude", "dangling", "cat", "file"]).succeeds().stdout("x");
    assert!(!world.has("project/nowhere"));
}

#[test]
fn missing_read_only_path_that_a_run_makes_is_moved_aside() {
    let world = World::new();
    world
        .run(["--ro", "later.txt", "sh", "-c", "echo x > later.txt"])
        .stderr_contains("new, and a rule makes this path read-only");
    assert!(!world.has("project/later.txt"));
    world.run(sh("echo x > later.txt")).succeeds().stderr("");
    assert!(world.has("project/later.txt"));
}

#[test]
fn rule_below_a_directory_that_cannot_be_entered_is_no_error() {
    let world = World::new().file("project/locked/file", "x");
    fs::set_permissions(world.path("project/locked"), Permissions::from_mode(0o000)).unwrap();
    for flag in ["--ro", "--rw", "--exclude"] {
        world
            .run([flag, "locked/file", "sh", "-c", "cat locked/file || echo closed"])
            .succeeds()
            .stdout("closed\n");
    }
}
