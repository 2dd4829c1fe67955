//! Content of `/run/agent-sandbox`, and the launcher's own arguments.

use testkit::World;

use crate::probe::sh;

#[test]
fn runtime_directories_can_be_used_but_not_listed() {
    let world = World::new().exec_file("project/wrap.sh", "#!/bin/sh\necho wrapped\n");
    let flags = ["--cmd", "wc=wrap.sh", "--cmd", "tac=false"];
    let run = |script: &str| world.run(flags.into_iter().chain(sh(script)));
    for dir in ["bin", "wrappers", "presets"] {
        run(&format!("stat -c %a /run/agent-sandbox/{dir}")).succeeds().stdout("111\n");
        run(&format!("ls /run/agent-sandbox/{dir}")).fails().stdout("");
        run(&format!("touch /run/agent-sandbox/{dir}/x")).fails();
    }
    run("/run/agent-sandbox/bin/wc -l /dev/null").succeeds().stdout("0 /dev/null\n");
    run("/run/agent-sandbox/wrappers/wc").succeeds().stdout("wrapped\n");
    run("cat /run/agent-sandbox/presets/git").succeeds();
    run("test -e /run/agent-sandbox/bin/tac").fails();
}

#[test]
fn preset_marker_is_there_only_with_its_rule() {
    let world = World::new();
    let look = "test -e /run/agent-sandbox/presets/git";
    world.run(sh(look)).succeeds();
    world.run(["--cmd", "git=true"].into_iter().chain(sh(look))).fails();
    world.run(["--cmd", "git=false", "git", "--version"]).code(1);
    world.run(["git", "--version"]).succeeds().stdout_contains("git version");
}

#[test]
fn multicall_runs_a_ruled_command_inside_and_nothing_outside() {
    let world = World::new().exec_file("project/wrap.sh", "#!/bin/sh\necho \"wrapped $1\"\n");
    world.run(["multicall", "wc"]).code(125).stderr_contains("inside a sandbox");
    let flags = ["--cmd", "wc=wrap.sh", "--cmd", "tac=false"];
    let run = |script: &str| world.run(flags.into_iter().chain(sh(script)));
    run("agent-sandbox multicall wc x").succeeds().stdout("wrapped x\n");
    run("agent-sandbox multicall tac").code(1).stderr_contains("is blocked");
    run("agent-sandbox multicall cat").code(125).stderr_contains("no rule");
}

#[test]
fn check_tells_inside_from_outside() {
    let world = World::new();
    world.run(["check"]).code(1).stdout("outside sandbox\n");
    world.run(["--check"]).code(1).stdout("outside sandbox\n");
    world.run(["agent-sandbox", "check"]).succeeds().stdout("inside sandbox\n");
    world.run(["agent-sandbox", "--check"]).succeeds().stdout("inside sandbox\n");
    let pretend = world.clone().env("AGENT_SANDBOX_CMD", "x").env("container", "oci");
    pretend.run(["check"]).code(1);
}

#[test]
fn exit_codes_tell_a_missing_command_from_one_that_cannot_run() {
    let world =
        World::new().file("project/data", "x").exec_file("project/empty-interp", "#!/no/such\n");
    world.run(["no-such-command"]).code(127).stderr_contains("command not found");
    world.run(["./no-such-command"]).code(127);
    world.run(["./data"]).code(126).stderr_contains("cannot execute `./data`");
    world.run(["/"]).code(126);
    world.run(["sh", "-c", "exit 42"]).code(42);
    world.run(["--no-such-flag", "true"]).code(2);
}
