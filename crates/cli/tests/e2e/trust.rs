//! A project's file may restrict the policy. To widen it, it must be trusted.

use testkit::World;

use crate::probe::sh;

const WIDENS: &str = "filesystem.rw = ['~/work']\n";

fn world(text: &str) -> World {
    World::new().file("home/work/notes", "x").file("project/sandbox.toml", text)
}

#[test]
fn widening_keys_are_refused_by_name_with_the_ways_to_allow_them() {
    for (text, key) in [
        ("filesystem.rw = ['~/work']", "filesystem.rw"),
        ("filesystem.rw = ['..']", "filesystem.rw"),
        ("filesystem.ro = ['~/.ssh/config']", "filesystem.ro"),
        ("filesystem.exclude = ['!~/.netrc']", "filesystem.exclude"),
        ("filesystem.presets = ['!@secrets']", "filesystem.presets"),
        ("filesystem.presets = ['!@git']", "filesystem.presets"),
        ("filesystem.presets = ['!@base']", "filesystem.presets"),
        ("filesystem.presets = ['!@all']", "filesystem.presets"),
        ("commands.git = true", "commands.git"),
        ("docker = true", "docker"),
        ("tmp = 'host'", "tmp"),
        ("sockets = ['/run/x.sock']", "sockets"),
        ("env = { LD_PRELOAD = 'x.so' }", "env"),
        ("mounts = [{ host = '/etc', container = '/x' }]", "mounts"),
        ("shared_dirs.a = { host = '/etc', guest = '/x' }", "shared_dirs"),
    ] {
        let world = world(text);
        let run = world.run(["touch", "ran"]).code(125).stderr_contains("is not trusted");
        run.stderr_contains(key)
            .stderr_contains("sandbox.toml:1")
            .stderr_contains("agent-sandbox trust");
        assert!(!world.has("project/ran"), "{text}");
    }
}

#[test]
fn every_widening_key_is_named_and_the_others_are_not() {
    let text = "network = false\ndocker = true\ntmp = 'host'\n[filesystem]\nexclude = ['x']\nrw = ['~/a', 'src']\n";
    let messages = world(text).run(["true"]).code(125).messages();
    for named in ["docker", "tmp", "~/a"] {
        assert!(messages.contains(named), "{named}: {messages}");
    }
    for quiet in ["network", "exclude", "src"] {
        assert!(!messages.contains(quiet), "{quiet}: {messages}");
    }
}

#[test]
fn restricting_keys_need_no_trust() {
    for text in [
        "filesystem.ro = ['src']",
        "filesystem.exclude = ['.env', '~/work']",
        "filesystem.rw = ['build']",
        "filesystem.rw = ['!~/.cache']",
        "filesystem.presets = ['!@lint/all', '@git-strict', '!@caches']",
        "commands = { wc = false, git = false }",
        "commands.git = '@git'",
        "network = false",
        "docker = false",
        "tmp = 'private'",
        "launcher = 'shim'",
    ] {
        world(text).run(["true"]).succeeds().stderr("");
    }
    let world = world("filesystem.exclude = ['~/work']\nnetwork = false\n");
    world.run(sh("cat ~/work/notes; grep -c : /proc/net/dev")).stdout("1\n");
}

#[test]
fn flag_and_variable_trust_once() {
    let world = world(WIDENS);
    let write = sh("touch ~/work/made");
    world.run(["--trust"].into_iter().chain(write)).succeeds();
    for value in ["1", "true"] {
        world.clone().env("AGENT_SANDBOX_TRUST", value).run(write).succeeds();
    }
    world.run(write).code(125);
    world.clone().env("AGENT_SANDBOX_TRUST", "0").run(write).code(125);
    world.run(["--trust=false"].into_iter().chain(write)).code(125);
}

#[test]
fn recorded_trust_holds_until_the_file_changes() {
    let world = world(WIDENS);
    let write = sh("touch ~/work/made");
    world.run(write).code(125);
    world.run(["trust"]).succeeds().stderr_contains("until it changes");
    world.run(write).succeeds();
    world.write("project/sandbox.toml", format!("{WIDENS}docker = true\n"));
    world.run(write).code(125).stderr_contains("docker");
    world.write("project/sandbox.toml", WIDENS);
    world.run(write).succeeds();
    world.run(["trust", "--list"]).succeeds().stdout_contains("sandbox.toml");
    world.run(["trust", "--revoke"]).succeeds();
    world.run(write).code(125);
}

#[test]
fn trust_of_one_project_says_nothing_about_another() {
    let world = world(WIDENS).file("other/sandbox.toml", WIDENS);
    world.run(["trust"]).succeeds();
    world.clone().cwd("other").run(["true"]).code(125);
}

#[test]
fn file_named_on_the_command_line_is_trusted_by_being_named() {
    let world = world(WIDENS);
    world.run(["-c", "sandbox.toml", "touch", "made"]).succeeds();
    world.write("home/.config/agent-sandbox/config.toml", WIDENS);
    world.host(["rm", "sandbox.toml"]).succeeds();
    world.run(sh("touch ~/work/made")).succeeds();
}

#[test]
fn record_of_trust_is_out_of_the_sandboxs_reach() {
    let world = world(WIDENS);
    world.run(["trust"]).succeeds();
    let state = world.path("home/.local/state").display().to_string();
    let script =
        "ls -R ~/.local/state/agent-sandbox | wc -l; echo x > ~/.local/state/agent-sandbox/trust/x";
    world.run(["--rw", &state].into_iter().chain(sh(script))).fails();
    world.run(["true"]).succeeds();
}

#[test]
fn terminal_asks_once_and_remembers() {
    let world = world(WIDENS);
    let mut no = world.terminal(["touch", "ran"]);
    no.wait_for("[y/N]");
    no.enter("n");
    no.wait().code(125).stdout_contains("filesystem.rw");
    assert!(!world.has("project/ran"));

    let mut yes = world.terminal(sh("touch ~/work/made"));
    yes.wait_for("~/work");
    yes.wait_for("[y/N]");
    yes.enter("y");
    yes.wait().succeeds();
    world.terminal(sh("touch ~/work/made")).wait().succeeds().stdout_lacks("[y/N]");
    world.run(sh("touch ~/work/made")).succeeds();

    world.write("project/sandbox.toml", format!("{WIDENS}docker = true\n"));
    let mut again = world.terminal(["true"]);
    again.wait_for("docker");
    again.wait_for("[y/N]");
    again.keys(testkit::CTRL_D);
    again.wait().code(125);
}

#[test]
fn broken_and_ambiguous_files_are_refused_with_their_place() {
    for (text, says) in [
        ("netwrok = false\n", "network"),
        ("[filesystem]\nr0 = ['x']\n", "sandbox.toml:2"),
        ("filesystem.ro = 'x'\n", "sandbox.toml:1"),
        ("filesystem.presets = ['@gti']\n", "@git"),
        ("not toml", "sandbox.toml:1"),
    ] {
        world(text).run(["true"]).code(125).stderr_contains(says);
    }
    let two = world("network = false\n").file("project/.agent-sandbox.json", "{}");
    two.run(["true"])
        .code(125)
        .stderr_contains("sandbox.toml")
        .stderr_contains(".agent-sandbox.json");
    two.run(["check"]).code(1);
    two.run(["--version"]).succeeds();
}

#[test]
fn key_that_nothing_carries_out_is_refused() {
    for (text, key) in [
        ("proxy = { addr = 'here' }\n", "invalid listen address `here`"),
        ("network = 'bridge'\n", "unknown network `bridge` for a local sandbox"),
        ("network = 'my-net'\n", "unknown network `my-net` for a local sandbox"),
    ] {
        world(text).run(["--trust", "true"]).code(125).stderr_contains(key);
    }
}
