//! Real programs in a tree: their output and their files equal those in a plain directory.

use std::path::Path;
use std::time::Duration;

use testkit::{Engine, Layered, World, need};

/// Runs a script in a base that a first script created, in a plain directory and on each engine. Then remounts, and
/// runs a script that only reads.
fn same(world: &World, prepare: &str, work: &str, look: &str) {
    let expected = outputs(world, Engine::Native, prepare, work, look);
    assert!(expected.iter().all(|text| !text.is_empty()), "the control says nothing: {expected:?}");
    for engine in [Engine::Overlay, Engine::AgentFs] {
        assert_eq!(outputs(world, engine, prepare, work, look), expected, "{engine:?}");
    }
}

fn outputs(world: &World, engine: Engine, prepare: &str, work: &str, look: &str) -> [String; 2] {
    let dir = format!("{engine:?}");
    let world = &world.clone().env("ENGINE", &dir);
    let base = format!("{dir}/base");
    let script = |text: &str| ["sh", "-euc", text].map(str::to_owned);
    world.clone().dir(&base).cwd(&base).host(script(prepare)).succeeds();
    let mut tree = Layered::new(world, &dir, engine);
    let patient = |tree: &Layered, text| {
        tree.start(script(text)).wait_up_to(Duration::from_secs(180)).succeeds().output()
    };
    let worked = patient(&tree, work);
    tree.remount();
    [worked, patient(&tree, look)]
}

#[test]
fn git_clones_commits_rebases_and_collects() {
    need("git");
    let world = World::new()
        .env("GIT_AUTHOR_DATE", "2024-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2024-01-01T00:00:00Z");
    same(
        &world,
        include_str!("programs/git-base.sh"),
        include_str!("programs/git.sh"),
        include_str!("programs/git-look.sh"),
    );
}

#[test]
fn sqlite_keeps_its_databases_whole() {
    need("sqlite3");
    same(
        &World::new(),
        include_str!("programs/sqlite-base.sh"),
        include_str!("programs/sqlite.sh"),
        include_str!("programs/sqlite-look.sh"),
    );
}

#[test]
fn tar_and_cp_take_a_tree_apart_and_together() {
    same(
        &World::new(),
        include_str!("programs/tar-base.sh"),
        include_str!("programs/tar.sh"),
        include_str!("programs/tar-look.sh"),
    );
}

#[test]
fn npm_installs_what_the_lock_file_names() {
    need("npm");
    same(
        &World::new(),
        include_str!("programs/npm-base.sh"),
        include_str!("programs/npm.sh"),
        include_str!("programs/npm-look.sh"),
    );
}

/// Builds a crate with the toolchain that built this test.
#[test]
fn cargo_builds_and_builds_again() {
    let bin = Path::new(env!("CARGO")).parent().unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let world = World::new().env("PATH", path).env("CARGO_NET_OFFLINE", "true");
    same(
        &world,
        include_str!("programs/cargo-base.sh"),
        include_str!("programs/cargo.sh"),
        include_str!("programs/cargo-look.sh"),
    );
}
