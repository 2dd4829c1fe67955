//! Existing hooks and settings cannot be changed, in any layout of a repository.

use testkit::World;

use crate::probe::{assert_views, sh};

/// Tries to change the settings and hooks of one git directory.
const ATTACK: &str = r#"
for file in config hooks/pre-commit info/attributes; do
  (echo '[core] fsmonitor = evil' >> "$1/$file") 2>/dev/null && echo "wrote $file"
done
mv "$1/hooks" "$1/h" 2>/dev/null && echo 'moved hooks'
rm -rf "$1/hooks" 2>/dev/null && echo 'removed hooks'
mv "$1/config" "$1/c" 2>/dev/null && echo 'moved config'
git --git-dir="$1" config user.name evil 2>/dev/null && echo 'set a value'
mv "$1" "$1.away" 2>/dev/null && echo 'moved the repository'
true"#;

fn with_hook(world: World, git_dir: &str) -> World {
    let hook = format!("{git_dir}/hooks/pre-commit");
    world.exec_file(hook, "#!/bin/sh\nexit 0\n").file(format!("{git_dir}/info/attributes"), "\n")
}

#[track_caller]
fn assert_held(world: &World, git_dir: &str) {
    let path = world.path(git_dir).display().to_string();
    let attack = ["sh", "-c", ATTACK, "attack", &path];
    world.run(attack).succeeds().stdout("");
    let read = |name: &str| world.read(format!("{git_dir}/{name}"));
    assert!(!read("config").contains("evil"), "{git_dir}");
    assert_eq!(read("hooks/pre-commit"), "#!/bin/sh\nexit 0\n", "{git_dir}");
    world.run(["--cmd", "git=true"].into_iter().chain(attack)).succeeds().stdout("");
    // The control: every attempt works without the preset.
    world.write("free.toml", "filesystem.presets = ['!@git']\n");
    let free = world.path("free.toml").display().to_string();
    let parent = world.path(git_dir).parent().expect("a parent").display().to_string();
    let control = world.run(["-c", &free, "--rw", &parent].into_iter().chain(attack)).succeeds();
    for done in ["wrote config", "wrote hooks/pre-commit", "moved hooks", "moved config"] {
        assert!(control.output().contains(done), "{done}: {control}");
    }
}

#[test]
fn plain_repository_holds() {
    let world = with_hook(World::new().file("project/f", "x").git_init("project"), "project/.git");
    assert_held(&world, "project/.git");
}

#[test]
fn repository_above_the_project_is_out_of_reach() {
    let world = with_hook(World::new().file("repo/sub/f", "x").git_init("repo"), "repo/.git");
    let world = world.cwd("repo/sub");
    world.run(sh("echo x >> ../.git/config")).fails();
    world.run(["git", "status"]).succeeds();
    assert_views(
        &world,
        &[],
        &[("repo/sub", "rw"), ("repo/.git/hooks", "ro"), ("repo/.git/config", "ro")],
    );
}

#[test]
fn worktree_holds() {
    let world = with_hook(World::new().file("main/f", "x").git_init("main"), "main/.git");
    world
        .clone()
        .cwd("main")
        .host(["git", "worktree", "add", "-q", "../project", "-b", "w"])
        .succeeds();
    assert_held(&world, "main/.git");
}

#[test]
fn pointer_of_a_worktree_holds() {
    let world = World::new().file("main/f", "x").git_init("main");
    world
        .clone()
        .cwd("main")
        .host(["git", "worktree", "add", "-q", "../project", "-b", "w"])
        .succeeds();
    for tried in ["echo 'gitdir: /evil' > .git", "rm -f .git", "mv .git x"] {
        world.run(sh(tried)).fails();
    }
    world.run(["git", "status", "--short"]).succeeds();
}

#[test]
fn submodule_holds() {
    let world =
        World::new().file("lib/f", "x").git_init("lib").file("project/f", "x").git_init("project");
    let add =
        ["git", "-c", "protocol.file.allow=always", "submodule", "add", "-q", "../lib", "sub"];
    world.host(add).succeeds();
    world.host(["git", "commit", "-qm", "sub"]).succeeds();
    let world = with_hook(world, "project/.git/modules/sub");
    world.run(sh("cd sub && echo y > g && git add g && git commit -qm g")).succeeds();
    assert_held(&world, "project/.git/modules/sub");
}

#[test]
fn nested_repository_holds() {
    let world = World::new().file("project/f", "x").git_init("project");
    let world = with_hook(
        world.file("project/vendor/lib/f", "x").git_init("project/vendor/lib"),
        "project/vendor/lib/.git",
    );
    assert_held(&world, "project/vendor/lib/.git");
}

#[test]
fn repository_behind_a_symlinked_git_holds() {
    let world = World::new().file("project/f", "x").git_init("project");
    world.host(["mv", ".git", "../store"]).succeeds();
    let world = with_hook(world.symlink("project/.git", "../store"), "store");
    world.run(["git", "status", "--short"]).succeeds();
    world.run(sh("rm .git && git init -q && git config user.name evil"));
    assert_eq!(
        std::fs::read_link(world.path("project/.git")).unwrap().display().to_string(),
        "../store"
    );
    assert_held(&world, "store");
}

#[test]
fn hooks_that_settings_point_to_hold() {
    let world =
        World::new().exec_file("project/.githooks/pre-commit", "#!/bin/sh\n").git_init("project");
    assert_views(&world, &[], &[("project/.githooks/pre-commit", "rw")]);
    world.host(["git", "config", "core.hooksPath", ".githooks"]).succeeds();
    world.host(["git", "config", "include.path", "../shared.inc"]).succeeds();
    world.write("project/shared.inc", "[test]\nx = y\n");
    let views = [
        ("project/.githooks", "ro"),
        ("project/.githooks/pre-commit", "ro"),
        ("project/shared.inc", "ro"),
    ];
    assert_views(&world, &[], &views);
}

#[test]
fn strict_preset_protects_other_branches_and_tags() {
    let world = World::new().file("project/f", "x").git_init("project");
    world.host(["git", "branch", "release"]).succeeds();
    world.host(["git", "tag", "v1"]).succeeds();
    world.host(["git", "switch", "-qc", "work"]).succeeds();
    world.write("strict.toml", "filesystem.presets = ['@git-strict']\n");
    let strict = world.path("strict.toml").display().to_string();
    let run = |flags: &[&str], script: &str| {
        world.run(flags.iter().copied().chain(["--cmd", "git=true"]).chain(sh(script)))
    };
    let commit = "git commit -q --allow-empty -m new";
    run(&["-c", &strict], commit).succeeds();
    for tried in [
        "git branch -f release HEAD",
        "git tag -f v1",
        "git tag -d v1",
        "git branch -D main",
        "echo x > .git/refs/heads/release",
    ] {
        run(&["-c", &strict], tried).fails();
    }
    for works in ["git branch -f release HEAD", "git tag -f v1", "git branch -D main"] {
        run(&[], works).succeeds();
    }
}

#[test]
fn packed_branches_hold_under_the_strict_preset() {
    let world = World::new().file("project/f", "x").git_init("project");
    world.host(["git", "branch", "release"]).succeeds();
    world.host(["git", "switch", "-qc", "work"]).succeeds();
    world.host(["git", "pack-refs", "--all"]).succeeds();
    let before = world.host(["git", "rev-parse", "release"]).output();
    world.write("strict.toml", "filesystem.presets = ['@git-strict']\n");
    let strict = world.path("strict.toml").display().to_string();
    let script = "git commit -q --allow-empty -m new && git log -1 --format=%s; git branch -f release HEAD; sed -i /release/d .git/packed-refs; true";
    world
        .run(["-c", &strict, "--cmd", "git=true"].into_iter().chain(sh(script)))
        .succeeds()
        .stdout("new\n");
    world.host(["git", "rev-parse", "release"]).succeeds().stdout(&before);
}
