//! From `up` to `down`, with restarts and crashes between.

use testkit::{Docker, Signal};

use super::stage::{NAME, Stage};

#[test]
fn the_same_container_serves_every_exec_until_down() {
    let stage = Stage::up("");
    stage
        .sh("id -u; id -un; pwd; hostname")
        .succeeds()
        .stdout("1000\nagent\n/workspace\nsandbox\n");
    stage
        .sh("echo kept > ~/note; echo seen > /workspace/file; echo out; echo err >&2; exit 7")
        .code(7)
        .stdout("out\n")
        .stderr("err\n");
    stage.sh("cat ~/note").succeeds().stdout("kept\n");
    assert_eq!(stage.world.read("project/file"), "seen\n");
    let first = stage.inspect("{{.Id}}");
    // `up` with the same settings does not recreate it.
    stage.bring_up().succeeds().stderr_contains("is already running");
    assert_eq!(stage.inspect("{{.Id}}"), first);
    stage.world.run(["ps"]).succeeds().stdout_contains("docker").stdout_contains("running");
    stage.down().succeeds();
    stage.down().succeeds();
    assert_eq!(stage.containers(), [""; 0]);
    stage.sh("true").fails().stderr_contains("is not up");
    // The persistent parts of a container come back with the next one.
    stage.bring_up().succeeds();
    stage.sh("cat ~/note").succeeds().stdout("kept\n");
}

#[test]
fn exec_passes_input_output_codes_and_signals() {
    let stage = Stage::up("");
    let line = ["exec", "-i", "-s", NAME, "cat"];
    stage.world.run_with_input("one\ntwo\n", line).succeeds().stdout("one\ntwo\n");
    stage.world.run(["exec", "-s", NAME, "no-such-program"]).code(127);
    stage.sh("kill -9 $$").code(137);
    let process =
        stage.world.spawn(["exec", "-s", NAME, "sh", "-c", "echo began; exec sleep 4711"]);
    process.wait_for("began\n");
    process.signal(Signal::TERM);
    process.wait().code(143);
    stage.sh("ps | grep '[s]leep 4711'").fails();
    let mut terminal = stage.world.terminal(["exec", "-it", "-s", NAME, "sh"]);
    terminal.enter("tty; echo $((6 * 7)); exit 3");
    terminal.wait_for("/dev/pts/");
    terminal.wait_for("42");
    terminal.wait().code(3);
}

#[test]
fn agent_runs_by_itself_and_its_log_is_shown() {
    let stage = Stage::up(
        "agent = { command = 'sh', args = ['-c', 'echo \"$1 in $PWD as $(id -u)\"; trap exit TERM; sleep 1000 & wait', 'sh', 'two words'] }",
    );
    stage.world.run(["logs", NAME]).succeeds().stdout_contains("two words in /workspace as 1000\n");
    // It needs no helper process: it is PID 1 and has no capabilities.
    assert_eq!(stage.inspect("{{.Config.User}} {{.HostConfig.CapAdd}}"), "1000:1000 []");
    stage.sh("grep -c two /proc/1/cmdline").succeeds().stdout("1\n");
    stage.sh("tr '\\0' '\\n' < /proc/1/environ | grep -E '^(AGENT|SESSION)_'").fails();
    // It ends, and the engine restarts it.
    stage.docker.run(["exec", "-u", "0", &stage.container(), "true"]).succeeds();
    assert_eq!(stage.inspect("{{.HostConfig.RestartPolicy.Name}}"), "unless-stopped");
}

#[test]
fn a_container_is_served_over_http_with_its_log() {
    let script = "for i in 1 2 3; do echo line $i; done; trap exit TERM; sleep 1000 & wait";
    let stage = Stage::up(&format!("agent = {{ command = 'sh', args = ['-c', '{script}'] }}"));
    let server = stage.world.spawn(["serve"]);
    server.wait_for_message("serving at");
    let socket = stage.world.path("home/.local/share/agent-sandbox/api.sock").display().to_string();
    let curl = |more: &[&str]| {
        let line = ["curl", "-sN", "--max-time", "60", "--unix-socket", &socket];
        stage.world.start(line.iter().chain(more))
    };
    let logs = format!("http://localhost/v1/sessions/{NAME}/logs");
    let lines = "data: line 1\n\ndata: line 2\n\ndata: line 3\n\n";
    curl(&[&logs]).wait().succeeds().stdout_contains(lines);
    let follow = curl(&[&format!("{logs}?follow=true")]);
    follow.wait_for("data: line 3");
    let usage = format!("http://localhost/v1/sessions/{NAME}/usage");
    let used = curl(&[&usage]).wait().succeeds();
    used.stdout_contains("\"processes\":2").stdout_lacks("\"memory_bytes\":0");
    let seen = curl(&[&format!("http://localhost/v1/sessions/{NAME}")]).wait().succeeds();
    seen.stdout_contains(r#""agent":{"state":"running","running":true"#);
    stage.down().succeeds();
    follow.wait().succeeds();
    curl(&[&logs]).wait().succeeds().stdout_contains(lines);
    curl(&[&usage]).wait().succeeds().stdout_contains("\"processes\":0");
    server.signal(Signal::TERM);
    server.wait().succeeds();
}

#[test]
fn what_cannot_start_says_why_and_leaves_nothing() {
    let stage = Stage::new("agent.command = 'no-such-program'");
    stage.bring_up().code(125).stderr_contains("did not start").stderr_contains("no-such-program");
    assert_eq!(stage.containers(), [""; 0]);
    let stage = Stage::new("agent.workdir = '/nowhere'\nagent.command = 'true'");
    stage.bring_up().code(125).stderr_contains("/nowhere");
    assert_eq!(stage.containers(), [""; 0]);
    let stage = Stage::new("");
    stage.world.write("project/sandbox.toml", "image = 'no-such-image'\n");
    stage
        .bring_up()
        .code(125)
        .stderr_contains("no image `no-such-image`")
        .stderr_contains("hint: ");
}

#[test]
fn daemon_that_is_gone_is_said_so() {
    let docker = Docker::new();
    let world = docker.world().clone().file("project/sandbox.toml", "backend = 'docker'\n");
    let gone = world.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    gone.run(["--trust", "up"])
        .code(125)
        .stderr_contains("/nowhere/docker.sock")
        .stderr_contains("hint: ");
    let elsewhere = gone.env("DOCKER_HOST", "tcp://10.0.0.1:2375");
    elsewhere.run(["--trust", "up"]).code(125).stderr_contains("not a Unix socket on this machine");
}

/// C9: another policy recreates the container, the same policy does not.
#[test]
fn c9_a_changed_policy_recreates_the_container() {
    let stage = Stage::up("");
    let first = stage.inspect("{{.Id}}");
    stage.configure("resources.pids = 77");
    let plain = stage.world.run(["--trust", "up", "--name", NAME]).code(125);
    plain.stderr_contains("pids: 4096 → 77").stderr_contains("--recreate");
    stage.bring_up().succeeds().stderr_contains("pids: 4096 → 77").stderr_contains("recreated");
    assert_ne!(stage.inspect("{{.Id}}"), first);
    assert_eq!(stage.inspect("{{.HostConfig.PidsLimit}}"), "77");
    assert_eq!(stage.containers().len(), 1);
}

#[test]
fn restart_recreates_it_and_keeps_the_home() {
    let stage = Stage::up("");
    let first = stage.inspect("{{.Id}}");
    stage.sh("echo kept > ~/note").succeeds();
    stage.world.run(["--trust", "restart", NAME]).succeeds();
    assert_ne!(stage.inspect("{{.Id}}"), first);
    stage.sh("cat ~/note").succeeds().stdout("kept\n");
    // The engine's own restart: the same container, usable as before.
    stage.docker.run(["restart", "--time", "1", &stage.container()]).succeeds();
    stage.sh("cat ~/note").succeeds().stdout("kept\n");
}

/// The state of an agent in a container is reported as for a local session, also while it crashes repeatedly.
#[test]
fn an_agent_is_seen_with_its_end_and_its_restarts() {
    let stage = Stage::up("agent = { command = 'sleep', args = ['1000'] }");
    let told = stage.world.run(["inspect", "--json", NAME]).succeeds().output();
    for part in [r#""state": "running""#, r#""running": true"#, r#""restarts": 0"#] {
        assert!(told.contains(part), "{part}: {told}");
    }
    stage.world.run(["inspect", NAME]).succeeds().stdout_contains("agent     running");
    let listed = stage.world.run(["ps", "--json"]).succeeds();
    listed.stdout_contains(r#""state": "running""#).stdout_contains(r#""restarts": 0"#);
    // PID 1 ignores TERM without a handler (`pid_namespaces(7)`), and nothing must run after it.
    assert_eq!(stage.inspect("{{.Config.StopTimeout}}"), "10");
    stage.down().succeeds();
    let stage = Stage::up(CRASHES);
    ended(&stage);
}

const CRASHES: &str = "agent = { command = 'sh', args = ['-c', 'sleep 0.2; exit 3'] }";

/// Waits until the agent is reported as between two starts.
#[track_caller]
fn ended(stage: &Stage) {
    for _ in 0..200 {
        let told = stage.world.run(["inspect", NAME]).succeeds().output();
        if told.contains("ended with 3, restarted") {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("never seen between two starts: {}", stage.world.run(["inspect", NAME]).output());
}

/// The engine doubles the delay before each restart, up to a minute. Meanwhile `up` finds no process.
#[test]
fn up_again_leaves_an_agent_alone_that_ends_again_and_again() {
    let stage = Stage::up(CRASHES);
    let made = stage.inspect("{{.Created}}");
    for _ in 0..3 {
        ended(&stage);
        let again = stage.world.run(["--trust", "up", "--name", NAME]).succeeds();
        again.stderr_contains("is already running").stderr_lacks("settings changed");
        assert_eq!(stage.inspect("{{.Created}}"), made);
    }
    // A listing reports the same as `inspect`.
    let server = stage.world.spawn(["serve"]);
    server.wait_for_message("serving at");
    ended(&stage);
    let socket = stage.world.path("home/.local/share/agent-sandbox/api.sock").display().to_string();
    let curl = ["curl", "-s", "--unix-socket", &socket, "http://localhost/v1/sessions"];
    let listed = stage.world.host(curl).succeeds().output();
    assert!(!listed.contains(r#""restarts":0"#) && listed.contains(r#""restarts":"#), "{listed}");
    assert!(listed.contains(r#""code":3"#) || listed.contains(r#""running":true"#), "{listed}");
    server.signal(testkit::Signal::TERM);
    server.wait().succeeds();
    // The control: other settings are recognized as different.
    stage.configure("agent = { command = 'sleep', args = ['1000'] }");
    stage.world.run(["--trust", "up", "--name", NAME]).code(125).stderr_contains("AGENT_COMMAND");
    stage.bring_up().succeeds().stderr_contains("settings changed");
}

#[test]
fn what_a_container_said_stays_after_down() {
    let script = "trap \"echo last words; exit\" TERM; echo first words; sleep 1000 & wait";
    let stage = Stage::up(&format!("agent = {{ command = 'sh', args = ['-c', '''{script}'''] }}"));
    let logs = || stage.world.run(["logs", NAME]).succeeds();
    while !logs().output().contains("first words") {}
    stage.down().succeeds();
    logs().stdout_contains("first words\n").stdout_contains("last words\n");
    stage.world.run(["logs", "--tail", "1", NAME]).succeeds().stdout("last words\n");
    let id = stage.id().unwrap();
    stage.world.run(["rm", NAME]).succeeds();
    let log = format!("home/.local/share/agent-sandbox/logs/{id}.log");
    assert!(!stage.world.has(&log) && !stage.world.has(format!("{log}.1")));
}
