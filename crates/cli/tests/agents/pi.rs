//! pi.

use serde_json::json;
use testkit::World;

use crate::attack::Scene;

const RUN: [&str; 8] = [
    "pi",
    "--offline",
    "--provider",
    "anthropic",
    "--model",
    "claude-sonnet-4-5",
    "-p",
    "do the work",
];

/// It reads the base URL of a provider from its own settings.
fn told(scene: &Scene) -> World {
    let models = json!({ "providers": { "anthropic": { "baseUrl": scene.provider.url() } } });
    scene.world.clone().file("home/.pi/agent/models.json", models.to_string())
}

#[test]
fn pi_works_and_takes_nothing_when_sandboxed() {
    for mounts in ["", "bwrap"] {
        let scene = Scene::new();
        let world = told(&scene).env("AGENT_SANDBOX_MOUNTS", mounts);
        scene.is_held(world.run(RUN));
        assert!(world.has("home/.pi/agent/sessions"), "the session is on record");
    }
}

#[test]
fn pi_takes_the_key_when_not_sandboxed() {
    let scene = Scene::new();
    scene.is_lost(told(&scene).host(RUN));
}
