//! Gemini CLI.

use testkit::World;

use crate::attack::Scene;

const RUN: [&str; 7] =
    ["gemini", "--yolo", "--skip-trust", "--model", "gemini-2.5-pro", "--prompt", "do the work"];

/// Selects login by key, as the user would.
fn told(scene: &Scene) -> World {
    let settings = r#"{"security":{"auth":{"selectedType":"gemini-api-key"}}}"#;
    let world = scene.world.clone().file("home/.gemini/settings.json", settings);
    world.env("GEMINI_API_KEY", "stand-in").env("GOOGLE_GEMINI_BASE_URL", scene.provider.url())
}

#[test]
fn gemini_works_and_takes_nothing_when_sandboxed() {
    for mounts in ["", "bwrap"] {
        let scene = Scene::new();
        let world = told(&scene).env("AGENT_SANDBOX_MOUNTS", mounts);
        scene.is_held(world.run(RUN));
        assert!(world.has("home/.gemini/tmp"), "the session is on record");
    }
}

#[test]
fn gemini_takes_the_key_when_not_sandboxed() {
    let scene = Scene::new();
    scene.is_lost(told(&scene).host(RUN));
}
