//! Codex.

use crate::attack::Scene;

/// Arguments, with and without the sandbox.
fn codex(scene: &Scene, confinement: &[&str]) -> Vec<String> {
    let provider = format!(
        "model_providers.stand-in={{name=\"stand-in\",base_url=\"{}/v1\",env_key=\"OPENAI_API_KEY\",wire_api=\"responses\"}}",
        scene.provider.url()
    );
    // Codex gives an unknown model only the plain tools.
    let settings =
        ["--model", "stand-in", "-c", "model_provider=stand-in", "-c", provider.as_str()];
    let words = ["codex", "exec"].iter().chain(confinement).chain(&settings);
    words.chain(&["do the work"]).map(|word| (*word).to_owned()).collect()
}

const UNCONFINED: &[&str] = &["--dangerously-bypass-approvals-and-sandbox"];

#[test]
fn codex_works_and_takes_nothing_when_sandboxed() {
    for mounts in ["", "bwrap"] {
        let scene = Scene::new();
        let world = scene.world.clone().env("AGENT_SANDBOX_MOUNTS", mounts);
        scene.is_held(world.run(codex(&scene, UNCONFINED)));
        assert!(world.has("home/.codex/sessions"), "the session is on record");
    }
}

#[test]
fn codex_takes_the_key_when_not_sandboxed() {
    let scene = Scene::new();
    scene.is_lost(scene.world.host(codex(&scene, UNCONFINED)));
}

#[test]
fn codex_keeps_its_own_sandbox_when_sandboxed() {
    let scene = Scene::new();
    scene.is_held(scene.world.run(codex(&scene, &["--sandbox", "workspace-write"])));
}
