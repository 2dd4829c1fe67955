//! W*, FS15: access to the layers of copy-on-write sessions.

use testkit::World;

/// A world whose sandboxes use the native rendering, because bubblewrap alone cannot mount an overlay.
fn apart() -> World {
    World::new().without_env("AGENT_SANDBOX_MOUNTS")
}

#[test]
fn w8_the_layers_of_sessions_are_not_visible_inside() {
    let world = apart().file("project/a", "1").dir("project/data/agent-sandbox/layers/x");
    let data = world.path("home/.local/share");
    let look = format!(
        "find {0} -name session.json; ls -R {0}; echo x > {0}/agent-sandbox/x",
        data.display()
    );
    world.run(["-s", "fix", "sh", "-c", "echo s3cret-layer > a"]).succeeds();
    world.host(["sh", "-c", &look]).succeeds().stdout_contains("session.json");
    for flags in [&[][..], &["-s", "fix"], &["-s", "other"], &["--rw", "~/.local"]] {
        let words = [flags, &["sh", "-c", &look]].concat();
        world.run(words).stdout_lacks("session.json").stdout_lacks("layers");
    }
    let elsewhere = world.clone().env("XDG_DATA_HOME", world.path("project/data"));
    let look = "find . -name session.json; ls data/agent-sandbox";
    elsewhere.host(["sh", "-c", look]).succeeds().stdout("layers\n");
    elsewhere.run(["sh", "-c", look]).succeeds().stdout("");
    let refused = elsewhere.run(["--cow=overlay", "sh", "-c", look]).code(125);
    refused.stderr_contains("contains the session data");
}

#[test]
fn w1_a_link_in_a_layer_does_not_lead_out() {
    let world = apart().file("home/notes", "mine").dir("project/d");
    let script = "rm -r d; ln -s ~ d; ln -s ~/notes n";
    world.run(["-s", "fix", "sh", "-c", script]).succeeds().stderr_contains("2 files changed");
    world.run(["snapshot", "-s", "fix"]).succeeds();
    world.run(["fork", "-s", "fix", "more"]).succeeds();
    world.run(["rm", "--yes", "fix", "more"]).succeeds();
    assert_eq!(world.read("home/notes"), "mine");
}

#[test]
fn fs15_a_cache_that_the_host_runs_programs_from_stays_as_it_was_when_all_is_kept_apart() {
    let world = apart().dir("home/.cargo/registry").dir("home/.npm");
    let script = "echo evil > ~/.cargo/registry/tool; echo evil > ~/.npm/tool";
    world.run(["--cow=all", "sh", "-c", script]).succeeds();
    assert!(!world.has("home/.cargo/registry/tool") && !world.has("home/.npm/tool"));
    world.run(["sh", "-c", script]).succeeds();
    assert!(world.has("home/.cargo/registry/tool") && world.has("home/.npm/tool"));
}

#[test]
fn fs11_devices_of_a_layer_are_whiteouts_and_nothing_else() {
    let world = apart().file("project/a", "1");
    let run = world.run(["--cow", "sh", "-c", "rm a; ls; mknod z c 1 5; mknod w c 0 0"]);
    run.fails().stdout("");
    assert_eq!(world.read("project/a"), "1");
}
