//! `undo` restores the state before the last apply exactly, or explains why it cannot.

use testkit::World;

use super::{change, tree};

#[test]
fn undo_restores_bytes_modes_times_links_and_trees() {
    let world = World::new()
        .file("project/a", "1\n")
        .file("project/d/deep/x", "x")
        .symlink("project/l", "a")
        .exec_file("project/tool", "#!/bin/sh\n");
    world.host(["sh", "-c", "chmod 640 a; chmod 711 d/deep; touch -d 2001-02-03 a d/deep/x; mkdir empty; chmod 711 empty"]).succeeds();
    let before = tree(&world, "project");
    change(
        &world,
        "echo 2 > a; chmod +x a; rm -r d empty; ln -sf d l; rm tool; mkdir tool; echo t > tool/t; echo n > n",
    );
    world.run(["apply", "--yes"]).succeeds();
    assert_ne!(tree(&world, "project"), before);
    world.run(["undo"]).succeeds().stderr_contains("Reverted ");
    assert_eq!(tree(&world, "project"), before);
    world.run(["diff", "--name-only"]).succeeds().stdout_contains("tool/t\n");
    world.run(["undo"]).code(1).stderr_contains("no apply");
    world.run(["apply", "--yes"]).succeeds();
    assert_eq!(world.read("project/tool/t"), "t\n");
}

#[test]
fn undo_leaves_what_changed_since() {
    let world = World::new().file("project/a", "1\n").file("project/b", "1\n");
    change(&world, "echo 2 > a; echo 2 > b");
    world.run(["apply"]).succeeds();
    world.write("project/a", "3\n");
    world.run(["undo"]).code(1).stderr_contains("changed since").stderr_contains("project/a");
    assert_eq!(world.read("project/b"), "2\n");
    world.run(["undo", "--partial"]).code(1);
    assert_eq!(world.read("project/a"), "3\n");
    assert_eq!(world.read("project/b"), "1\n");
}

#[test]
fn each_apply_is_taken_back_by_itself() {
    let world = World::new().file("project/a", "1\n");
    change(&world, "echo 2 > a");
    world.run(["apply"]).succeeds();
    change(&world, "echo 3 > a");
    world.run(["apply"]).succeeds();
    world.run(["undo"]).succeeds();
    assert_eq!(world.read("project/a"), "2\n");
    world.run(["undo"]).succeeds();
    assert_eq!(world.read("project/a"), "1\n");
    world.run(["diff"]).succeeds().stdout_contains("+3");
}

#[cfg(feature = "setup")]
#[test]
fn history_lists_applies_and_undos_with_their_counts() {
    for engine in ["overlay", "agentfs"] {
        let world = World::new().file("project/a", "one\n").file("project/b", "b\n");
        // Bubblewrap alone cannot mount an overlay.
        let world = world.without_env("AGENT_SANDBOX_MOUNTS");
        let cow = format!("--cow={engine}");
        let work = "echo two >> a; rm b; echo n > n";
        world.run(["-s", "fix", &cow, "sh", "-c", work]).succeeds();
        let events = || -> Vec<(String, serde_json::Value)> {
            let told = world.run(["history", "-s", "fix", "--json"]).succeeds().output();
            let told: Vec<serde_json::Value> = serde_json::from_str(&told).unwrap();
            assert_eq!(told[0]["what"], "begin", "{told:?}");
            let is_change = |event: &&serde_json::Value| event.get("changes").is_some();
            let found = told.iter().filter(is_change);
            assert!(told.iter().all(|event| event["at"].as_u64().unwrap() > 1_600_000_000));
            found
                .map(|one| (one["what"].as_str().unwrap().into(), one["changes"].clone()))
                .collect()
        };
        assert!(events().is_empty(), "{engine}");
        world.run(["apply", "-s", "fix", "a"]).succeeds();
        world.run(["apply", "-s", "fix"]).succeeds();
        let applied = [("apply".to_owned(), 1.into()), ("apply".to_owned(), 2.into())];
        assert_eq!(events(), applied, "{engine}");
        world.run(["undo", "-s", "fix"]).succeeds();
        assert_eq!(events().last(), Some(&("undo".to_owned(), 2.into())), "{engine}");
        let shown = world.run(["history", "-s", "fix"]).succeeds();
        shown.stdout_contains("apply").stdout_contains("undo").stdout_contains("2 changes");
    }
}
