//! opencode.

use serde_json::json;
use testkit::World;

use crate::attack::Scene;

const RUN: [&str; 5] = ["opencode", "run", "--model", "anthropic/claude-sonnet-4-5", "do the work"];

/// Its SDK expects the version in the base URL.
fn told(scene: &Scene) -> World {
    let options = json!({ "baseURL": format!("{}/v1", scene.provider.url()) });
    let settings =
        json!({ "permission": "allow", "provider": { "anthropic": { "options": options } } });
    scene.world.clone().env("OPENCODE_CONFIG_CONTENT", settings.to_string())
}

#[test]
fn opencode_works_and_takes_nothing_when_sandboxed() {
    for mounts in ["", "bwrap"] {
        let scene = Scene::new();
        let world = told(&scene).env("AGENT_SANDBOX_MOUNTS", mounts);
        scene.is_held(world.run(RUN));
        assert!(world.has("home/.local/share/opencode"), "the session is on record");
    }
}

#[test]
fn opencode_takes_the_key_when_not_sandboxed() {
    let scene = Scene::new();
    scene.is_lost(told(&scene).host(RUN));
}
