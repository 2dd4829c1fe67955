//! Settings of an agent in the home directory, which it applies outside a sandbox too.

use super::world::World;

#[test]
fn settings_of_agents_are_named_when_a_run_changed_them() {
    let world = World::new();
    world.write("home/.codex/config.toml", "model = \"one\"");
    let run = world.begin(&["work"]);
    assert_eq!(run.finish().runs_later, [], "nothing was changed");
    let report = world.run(&["work"], |world| {
        world.write("home/.claude/settings.json", "{ \"hooks\": {} }");
        world.write("home/.codex/config.toml", "notify = [\"sh\"]");
        world.write("home/.claude/history.jsonl", "");
    });
    let named: Vec<_> = report.runs_later.iter().map(|later| later.path.clone()).collect();
    let expected = ["home/.claude/settings.json", "home/.codex/config.toml"];
    assert_eq!(named, expected.map(|path| world.path(path)));
}
