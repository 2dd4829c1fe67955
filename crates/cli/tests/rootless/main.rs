//! Sessions on other engines than Docker as root: rootless Docker, Podman, rootless Podman. `./dev test rootless`
//! starts each of them and runs this test as the user who owns the engine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "../containers/sessions/stage.rs"]
#[allow(dead_code, reason = "the other tests need more of it")]
mod stage;

use std::os::unix::fs::MetadataExt;

use stage::{KEY, NAME, Provider, Stage};
use testkit::{Signal, User, user};

/// Features that an engine lacks are reported, and a configuration that needs them is refused.
const LIMITS: &str = "no memory limit";

/// The project belongs to the caller. The agent, which root started, is another user.
fn owner() -> u32 {
    match user() {
        User::Root => 1000,
        User::Ordinary => rustix::process::getuid().as_raw(),
    }
}

fn is_rootless() -> bool {
    user() == User::Ordinary
}

fn is_podman(stage: &Stage) -> bool {
    let name = stage.docker.run(["version", "--format", "{{.Server.Platform.Name}}"]).output();
    name.starts_with("linux/")
}

#[track_caller]
fn belongs_to_the_user(stage: &Stage, path: &str) {
    let about = std::fs::symlink_metadata(stage.world.path(path)).unwrap();
    assert_eq!(about.uid(), owner(), "{path}");
}

#[test]
fn files_belong_to_the_user_who_started_the_session() {
    let stage = Stage::new("");
    stage.world.write("project/mine", "old\n");
    if !is_rootless() {
        stage.world.host(["chown", "1000:1000", "mine"]).succeeds();
    }
    // The control: no other user may write there.
    stage.world.host(["chmod", "700", "."]).succeeds();
    stage.world.host(["chmod", "600", "mine"]).succeeds();
    stage.bring_up().succeeds().stderr_lacks("may not be able to write");
    stage.sh("id -un; cat mine; echo new > mine; mkdir -p made/deep; echo x > made/deep/file; echo kept > ~/note")
        .succeeds()
        .stdout("agent\nold\n");
    for path in ["project/mine", "project/made", "project/made/deep/file"] {
        belongs_to_the_user(&stage, path);
    }
    assert_eq!(stage.world.read("project/mine"), "new\n");
    // In both directions: the agent may change files that are created outside.
    stage.world.write("project/made/late", "");
    if is_rootless() {
        stage.sh("echo more >> made/late; rm made/deep/file").succeeds();
        assert_eq!(stage.world.read("project/made/late"), "more\n");
    }
    stage.down().succeeds();
    stage.bring_up().succeeds();
    stage.sh("cat ~/note").succeeds().stdout("kept\n");
    stage.down().succeeds();
    assert!(stage.containers().is_empty());
}

#[test]
fn an_agent_that_is_the_first_process_writes_as_the_user_too() {
    let script = "echo said; id -un > who; trap exit TERM; sleep 1000 & wait";
    let stage = Stage::up(&format!("agent = {{ command = 'sh', args = ['-c', '{script}'] }}"));
    stage.world.run(["logs", NAME]).succeeds().stdout_contains("said\n");
    stage.sh("grep -E 'Cap(Prm|Eff|Bnd)' /proc/1/status | sort -u | wc -l; cat who").succeeds();
    belongs_to_the_user(&stage, "project/who");
    assert_eq!(stage.world.read("project/who"), "agent\n");
    assert_eq!(stage.inspect("{{.HostConfig.CapAdd}}"), "[]");
}

#[test]
fn nothing_of_root_is_in_reach_of_an_agent() {
    let stage = Stage::up("");
    for (script, why) in [
        ("touch /x", "the root is read-only"),
        ("touch /etc/x", "all of it"),
        ("touch /run/x", "and what is ours"),
        ("touch /run/agent-sandbox/x", "in each directory"),
        ("mv /run/agent-sandbox /run/other", "as a whole, too"),
        ("rm /run/agent-sandbox/agent-sandbox-init", "and each file"),
        ("ls /run/agent-sandbox/private", "what the first process keeps"),
        ("cat /run/agent-sandbox/private/control/control", "what it is told"),
        ("cat /proc/1/environ", "what it was told"),
        ("ls /proc/1/root/ /proc/1/fd", "what it has open"),
        ("kill -TERM 1", "the first process"),
        ("mount -t tmpfs tmpfs /tmp", "no mounts"),
        ("chown 12345 /workspace/sandbox.toml", "no capabilities"),
        ("setpriv --reuid 12345 true || su nobody -s /bin/true", "another user"), // words: quoted
        ("mknod /tmp/null c 1 3", "no devices"),
        ("echo 1 > /proc/sys/kernel/panic", "the machine's settings"),
        ("echo 1 > /proc/sys/net/ipv4/ip_forward", "the network's"),
        ("echo x > /sys/kernel/mm/ksm/run", "the kernel's"),
    ] {
        let run = stage.sh(script);
        assert!(!run.status().success(), "{why}: {script}");
    }
    // Podman's own seccomp filter would let every user create one. Ours is the same on every engine.
    stage.sh("unshare -Ur true").fails();
    let status = "grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'";
    let status = stage.sh(status).succeeds().output();
    // A process with uid 0 of the container could read the last one.
    let sets = ["CapInh", "CapPrm", "CapEff", "CapAmb", "CapBnd"];
    for set in &sets[..if is_podman(&stage) { 4 } else { 5 }] {
        assert!(status.contains(&format!("{set}:0000000000000000")), "{status}");
    }
    assert!(status.contains("NoNewPrivs:1") && status.contains("Seccomp:2"), "{status}");
    // PID 1 keeps the capability to signal other processes, and runs as another user than the agent.
    stage.sh("test \"$(stat -c %u /proc/1)\" != \"$(id -u)\"").succeeds();
    assert_eq!(
        stage.inspect("{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.NetworkMode}}"),
        "true none"
    );
}

#[test]
fn exec_passes_everything_on() {
    let stage = Stage::up("");
    stage.sh("echo out; echo err >&2; exit 7").code(7).stdout("out\n").stderr("err\n");
    let line = ["exec", "-i", "-s", NAME, "cat"];
    stage.world.run_with_input("one\ntwo\n", line).succeeds().stdout("one\ntwo\n");
    let process =
        stage.world.spawn(["exec", "-s", NAME, "sh", "-c", "echo began; exec sleep 4711"]);
    process.wait_for("began\n");
    process.signal(Signal::TERM);
    process.wait().code(143);
    stage.sh("pgrep -f 'sleep 471[1]'").fails();
    let mut terminal = stage.world.terminal(["exec", "-it", "-s", NAME, "sh"]);
    terminal.enter("tty; exit 3");
    terminal.wait_for("/dev/pts/");
    terminal.wait().code(3);
}

#[test]
fn attach_joins_the_agents_terminal() {
    let script = "while read line; do echo \"heard $line\"; done";
    let stage = Stage::up(&format!("agent = {{ command = 'sh', args = ['-c', '{script}'] }}"));
    let mut terminal = stage.world.terminal(["attach", NAME]);
    terminal.wait_for("Ctrl-P Ctrl-Q");
    terminal.enter("one");
    terminal.wait_for("heard one");
    terminal.keys("\x10\x11");
    terminal.wait().code(0);
    stage.world.run(["ps"]).succeeds().stdout_contains("running");
}

#[test]
fn a_proxied_key_works_without_a_network_and_outlives_the_container() {
    let provider = Provider::new();
    let address = &provider.address;
    let stage = Stage::new(&format!(
        "[secrets.anthropic]\nmode = 'proxy'\nenv_var = 'ANTHROPIC_API_KEY'\nupstream_url = 'http://{address}'\nfrom_file = '../key'\n"
    ));
    stage.world.write("key", KEY);
    stage.bring_up().succeeds();
    stage.sh("ls /sys/class/net").succeeds().stdout("lo\n");
    stage.sh(&format!("wget -q -O - http://{address}/")).fails();
    stage.asks_with_the_real_key(&provider);
    stage.docker.run(["restart", "--time", "1", &stage.container()]).succeeds();
    stage.asks_with_the_real_key(&provider);
    stage.sh("env; cat /proc/1/environ").stdout_lacks(KEY);
}

#[test]
fn host_commands_run_on_the_host_by_the_socket() {
    let stage = Stage::up("host_commands = { enabled = true, allowed = ['uname', 'id'] }");
    let machine = stage.world.host(["uname", "-n"]).output();
    let run = |words: [&str; 2]| stage.world.run(["exec", "-s", NAME].into_iter().chain(words));
    run(["uname", "-n"]).succeeds().stdout(&machine);
    run(["/bin/uname", "-n"]).succeeds().stdout("sandbox\n");
    run(["id", "-u"]).succeeds().stdout(&format!("{}\n", rustix::process::getuid().as_raw()));
    stage.sh("rm /run/agent-sandbox/bridge/socket").fails();
}

#[test]
fn what_an_engine_cannot_do_is_refused_with_the_reason() {
    let stage = Stage::new("cow = true");
    stage.bring_up().code(125).stderr_contains("only rootful Docker").stderr_contains("hint: ");
    if !is_rootless() {
        return;
    }
    for (config, said) in [
        ("services.dockerd = 'auto'", "services.dockerd"),
        ("workspace = { path = 'https://example.com/x.git' }", "workspace.path"),
    ] {
        stage.configure(config);
        stage.bring_up().code(125).stderr_contains(said).stderr_contains("hint: ");
    }
    // Limits are applied if the engine supports them, and otherwise reported or refused.
    stage.configure("");
    let lifted = stage.bring_up().succeeds().messages().contains(LIMITS);
    stage.configure("resources.memory = '256m'");
    if lifted {
        stage
            .bring_up()
            .code(125)
            .stderr_contains("cannot limit `memory`")
            .stderr_contains("cgroup");
    } else {
        stage.bring_up().succeeds();
        assert_eq!(stage.inspect("{{.HostConfig.Memory}}"), "268435456");
    }
}

#[test]
fn engine_is_found_by_its_socket_without_a_variable() {
    let stage = Stage::new("");
    let socket = stage.docker.host().strip_prefix("unix://").unwrap().to_owned();
    let below = if is_podman(&stage) { "run/podman/podman.sock" } else { "run/docker.sock" };
    let place = stage.world.path(below);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(socket, &place).unwrap();
    let world = stage.world.clone().without_env("DOCKER_HOST");
    let world = world.env("XDG_RUNTIME_DIR", stage.world.path("run"));
    world.run(["--trust", "up", "--dry-run"]).succeeds().stdout_contains("\"image\"");
}
