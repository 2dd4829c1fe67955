//! Claude Code.

use serde_json::Value;
use testkit::{User, user};

use crate::attack::Scene;

const ANY_TOOL: [&str; 4] = ["claude", "-p", "do the work", "--dangerously-skip-permissions"];
const SHELL_ONLY: [&str; 5] = ["claude", "-p", "do the work", "--allowedTools", "Bash"];

#[test]
fn claude_works_and_takes_nothing_when_sandboxed() {
    for mounts in ["", "bwrap"] {
        let scene = Scene::new();
        let world = scene.world.clone().env("AGENT_SANDBOX_MOUNTS", mounts);
        scene.is_held(world.run(ANY_TOOL));
        assert!(world.has("home/.claude/projects"), "the session is on record");
    }
}

#[test]
fn claude_takes_the_key_when_not_sandboxed() {
    let scene = Scene::new();
    scene.is_lost(scene.world.host(SHELL_ONLY));
}

/// It refuses to skip its permission questions for root. Inside, root is an ordinary user without capabilities.
#[test]
fn claude_skips_its_questions_when_root_runs_it_sandboxed() {
    let scene = Scene::new();
    match user() {
        User::Root => {
            scene.world.host(ANY_TOOL).fails().stderr_contains("root/sudo privileges");
        }
        User::Ordinary => scene.is_lost(scene.world.host(ANY_TOOL)),
    }
    let scene = Scene::new();
    scene.is_held(scene.world.run(ANY_TOOL));
}

/// It replaces `~/.claude.json` by a rename, for which the home directory would have to be writable.
#[test]
fn claude_remembers_its_settings_when_home_is_read_only() {
    let scene = Scene::new();
    let world = scene.world.clone().without_env("AGENT_SANDBOX_MOUNTS");
    let identity = || {
        world.run(SHELL_ONLY).succeeds();
        let settings: Value = serde_json::from_str(&world.read("home/.claude.json")).unwrap();
        settings["userID"].as_str().expect("settings with an identity").to_owned()
    };
    assert_eq!(identity(), identity());
}
