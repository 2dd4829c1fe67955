//! A home directory in which an agent has never run.

use crate::attack::Scene;

#[test]
fn claude_leaves_no_state_when_it_wrote_none() {
    let scene = Scene::new();
    scene.world.run(["claude", "--version"]).succeeds();
    for path in ["home/.claude", "home/.claude.json"] {
        assert!(!scene.world.has(path), "{path}");
    }
}

#[test]
fn agents_get_no_state_when_a_rule_hides_it() {
    let scene = Scene::new();
    scene.world.run(["--exclude", "~/.codex", "codex", "--version"]).succeeds();
    assert!(!scene.world.has("home/.codex"));
}

#[test]
fn agents_get_no_state_when_another_command_is_run() {
    let scene = Scene::new();
    scene.world.run(["sh", "-c", "claude --version"]).succeeds();
    assert!(!scene.world.has("home/.claude"));
}
