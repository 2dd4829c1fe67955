//! Host commands over SSH: a container on a network, a host with a real sshd, and access to the key.

use super::machine::{KEYS, Machine, make_key};
use super::stage::{NAME, Stage};

/// Agent that is PID 1 and ends on request.
const ALONE: &str = "agent = { command = 'sh', args = ['-c', 'trap \"exit 0\" TERM; while :; do sleep 1 & wait; done'], init = 'exec' }";

/// Example of the sandboxing guide with a network, which SSH needs, on a host that `setup` prepared.
#[test]
fn the_guides_example_works_by_ssh_and_its_key_ends_with_it() {
    let machine = Machine::new();
    let stage = &machine.stage;
    for dir in ["foo", "config"] {
        std::fs::create_dir(stage.world.path(dir)).unwrap();
        std::os::unix::fs::chown(stage.world.path(dir), Some(1000), Some(1000)).unwrap();
    }
    std::fs::remove_file(stage.world.path("project/sandbox.toml")).unwrap();
    let example = format!(
        r#"{{ "image": "{}", "sandbox": {{ "network": "{}",
            "mounts": [
                {{ "host": "{}", "container": "/workspace", "mode": "rw" }},
                {{ "host": "{}", "container": "/config", "mode": "ro" }}
            ],
            "host_commands": {{
                "enabled": true, "transport": "ssh", "port": {}, "user": "host-runner",
                "host": "host.docker.internal", "allowed": ["mytool", "git status"]
            }} }} }}"#,
        stage.docker.ssh_client(),
        machine.network,
        stage.world.path("foo").display(),
        stage.world.path("config").display(),
        machine.port,
    );
    stage.world.write("project/.agent-sandbox.json", example);
    stage
        .bring_up()
        .succeeds()
        .stderr_contains(
            "granted: host commands git, mytool: they run on this machine, as `host-runner`",
        )
        .stderr_contains(&format!("its SSH key is authorized in `{KEYS}` until the session stops"));
    let mytool = |line: &str| stage.sh(&format!("mytool {line}"));
    mytool("'a b' '$(id)' ''").succeeds().stdout("<a b><$(id)><>\n");
    mytool("both").succeeds().stdout("to-out\n").stderr("to-err\n");
    mytool("code 7").code(7);
    mytool("die").code(137);
    stage.sh("echo hello | mytool cat").succeeds().stdout("hello\n");
    mytool("env").succeeds().stdout_contains("USER=host-runner");
    // The container sends more commands than the host allows. The host decides.
    stage.sh("git status").code(1).stdout("").stderr_contains("denied: git\n");
    let keys = machine.keys();
    for text in
        ["restrict,command=\"/usr/local/sbin/miclaw-cmd-wrapper\",from=\"198.1", "expiry-time=\"20"]
    {
        assert!(keys.contains(text), "{keys}");
    }
    let id = stage.id().unwrap();
    assert!(keys.contains(&format!("agent-sandbox-{id}")), "{keys}");
    let told = stage.world.run(["inspect", NAME]).succeeds();
    assert!(told.output().contains(keys.trim_end()), "{told}");
    // The engine restarts the container, and with it the relay.
    stage.docker.run(["restart", "--time", "5", &stage.container()]).succeeds();
    mytool("x").succeeds().stdout("<x>\n");
    let key = format!("home/.local/share/agent-sandbox/boxes/{id}/keys/ssh_key");
    assert!(stage.world.has(&key));
    stage.down().succeeds();
    assert!(!stage.world.has(&key) && machine.keys().is_empty(), "{}", machine.keys());
}

/// Only the relay can read the key, and it connects only to the pinned host.
#[test]
fn h4_the_agent_cannot_read_the_key_and_another_host_is_not_believed() {
    let machine = Machine::new();
    let stage = &machine.stage;
    let path = "env = { PATH = '/workspace:/run/agent-sandbox/bridge/bin:/bin:/usr/bin' }";
    machine.configure(path, "allowed = ['mytool']");
    stage.bring_up().succeeds();
    stage.sh("mytool x").succeeds().stdout("<x>\n");
    stage.sh("id -u; stat -c %u-%a /run/secrets/ssh_key").succeeds().stdout("1000\n65530-400\n");
    for path in ["/run/secrets/ssh_key", "/run/agent-sandbox/private/keys/ssh_key"] {
        stage.sh(&format!("cat {path}")).fails().stdout("").stderr_contains("denied");
    }
    // A program of the agent that is found first in PATH does not get it either, when the relay restarts.
    stage.sh("printf '#!/bin/sh\\nid -u; cat /run/secrets/*' > /workspace/ssh; chmod +x /workspace/ssh").succeeds();
    stage.docker.run(["restart", "--time", "5", &stage.container()]).succeeds();
    stage.sh("ssh").fails().stdout("1000\n");
    stage.sh("mytool x").succeeds().stdout("<x>\n");
    // It also cannot replace, inspect or end the relay.
    stage.sh("rm /run/agent-sandbox/relay/socket").fails();
    let relay = r#"pid=$(grep -l "^Uid:.65530" /proc/[0-9]*/status | head -n 1 | cut -d/ -f3); test -n "$pid" || exit 99"#;
    for what in ["cat /proc/PID/environ", "cat /proc/PID/maps", "ls /proc/PID/fd", "kill -9 PID"] {
        let tried = |pid: &str| {
            format!("{relay}; if {} >/dev/null; then exit 98; fi", what.replace("PID", pid))
        };
        stage.sh(&tried("$pid")).succeeds().stderr_contains("ermi");
        // The control: one of its own processes.
        stage.sh(&format!("sleep 1000 & own=$!; {}", tried("$own"))).code(98);
    }
    // If the host's key differs from the pinned one, nothing is sent. The first run is the control.
    let other = stage.world.read("other_key.pub");
    machine.configure("", &format!("allowed = ['mytool']\nhost_key = '{}'", other.trim()));
    stage.bring_up().succeeds().stderr_contains("was recreated");
    stage.sh("mytool x").code(255).stdout("").stderr_contains("Host key verification failed");
    // The first host key that answers is accepted only with `accept-new`.
    machine.configure("", "allowed = ['mytool']\nhost_key = 'accept-new'");
    stage.bring_up().succeeds();
    stage.sh("mytool x").succeeds().stdout("<x>\n");
    // Disabled: no key, no relay, no shim, no name for the host.
    machine.configure("", "allowed = ['mytool']");
    let text =
        stage.world.read("project/sandbox.toml").replace("enabled = true", "enabled = false");
    stage.world.write("project/sandbox.toml", text);
    stage.bring_up().succeeds().stderr_lacks("host commands");
    stage.sh("mytool x").code(127);
    stage.sh("ls /run/secrets").fails();
    stage.sh("ls /run/agent-sandbox/relay /run/agent-sandbox/bridge").fails();
    stage.sh("grep host.docker.internal /etc/hosts").fails();
    assert_eq!(
        (stage.inspect("{{.HostConfig.ExtraHosts}}"), machine.keys()),
        ("[]".into(), String::new())
    );
}

/// Without a process of ours beside the agent, the agent has the key. The host limits its use.
#[test]
fn h3_h4_a_key_in_the_agents_hands_runs_host_commands_from_there_and_nothing_else() {
    let machine = Machine::new();
    let stage = &machine.stage;
    machine.configure(ALONE, "allowed = ['mytool']");
    stage.bring_up().succeeds().stderr_contains("the agent can read the SSH key");
    stage.sh("mytool 'a b'; mytool code 7").code(7).stdout("<a b>\n");
    stage.sh("stat -c %u-%a /run/secrets/ssh_key").succeeds().stdout("1000-400\n");
    let key =
        stage.sh("cat /run/secrets/ssh_key").succeeds().stdout_contains("PRIVATE KEY").output();
    let known = "-o UserKnownHostsFile=/run/agent-sandbox/bridge/known_hosts -o LogLevel=INFO";
    let ssh = |more: &str| {
        let port = machine.port;
        stage.sh(&format!("ssh -F none -i /run/secrets/ssh_key -p {port} {known} {more}"))
    };
    let host = "host-runner@host.docker.internal";
    ssh(&format!("{host} mytool x")).succeeds().stdout("<x>\n");
    ssh(&format!("{host} rm -rf /")).code(1).stdout("").stderr_contains("denied: rm\n");
    ssh(&format!("{host} 'mytool x; id'")).code(1).stdout("").stderr_contains("denied: mytool\n");
    ssh(&format!("-T {host} < /dev/null"))
        .code(1)
        .stdout("")
        .stderr_contains("there is no command");
    ssh(&format!("-W 127.0.0.1:{} {host}", machine.port)).fails().stdout("");
    ssh(&format!("-tt {host} mytool x")).stderr_contains("PTY allocation request failed");
    ssh(&format!("-o ExitOnForwardFailure=yes -R 0:127.0.0.1:1 {host} mytool x"))
        .fails()
        .stdout("");
    // Stolen, it is refused from elsewhere. The control is another key without that limit.
    stage.world.write("stolen", key);
    make_key(&stage.world, "admins");
    for name in ["stolen", "admins"] {
        stage
            .world
            .host(["chmod", "600", &stage.world.path(name).display().to_string()])
            .succeeds();
    }
    let public = stage.world.path("admins.pub").display().to_string();
    stage.world.run(["host-command", "setup", "--yes", "--key", &public]).succeeds();
    machine.ask("stolen", "127.0.0.1").code(255).stdout("");
    machine.ask("admins", "127.0.0.1").succeeds().stdout("<x>\n");
    stage.down().succeeds();
    let keys = machine.keys();
    assert!(keys.contains("ssh-ed25519") && !keys.contains("agent-sandbox-"), "{keys}");
    // Over the socket, the agent has no key, also if it is PID 1.
    let text = stage.world.read("project/sandbox.toml").replace("transport = 'ssh'", "");
    stage.world.write("project/sandbox.toml", text);
    stage.bring_up().succeeds();
    stage.sh("mytool x; ls /run/secrets").fails().stdout("<x>\n");
}

/// A stored key is authorized by the administrator. A configuration that cannot be applied leaves nothing behind.
#[test]
fn a_stored_key_is_used_and_what_is_missing_is_named() {
    let machine = Machine::new();
    let stage = &machine.stage;
    machine.configure("", "allowed = ['mytool']\nssh_key_secret = 'tool_key'");
    stage
        .bring_up()
        .code(125)
        .stderr_contains("secret `tool_key` is not stored")
        .stderr_contains("secret set tool_key < KEY");
    make_key(&stage.world, "admins");
    stage.world.run_with_input("not a key", ["secret", "set", "tool_key"]).succeeds();
    stage.bring_up().code(125).stderr_contains("it is not a private key");
    let private = stage.world.read("admins");
    stage.world.run_with_input(&private, ["secret", "set", "tool_key"]).succeeds();
    let public = stage.world.path("admins.pub").display().to_string();
    let gateway = machine.gateway.rsplit_once('.').unwrap().0;
    let setup =
        ["host-command", "setup", "--yes", "--key", &public, "--from", &format!("{gateway}.0/24")];
    stage.world.run(setup).succeeds();
    let before = machine.keys();
    stage.bring_up().succeeds().stderr_lacks("authorized_keys");
    stage.sh("mytool x; test -e /run/secrets/tool_key").succeeds().stdout("<x>\n");
    stage.down().succeeds();
    assert_eq!(machine.keys(), before);
    // A deployment without `authorized_keys`: the line is printed.
    stage
        .world
        .host(["sed", "-i", "/^authorized_keys/d", "/etc/agent-sandbox/host-commands.toml"])
        .succeeds();
    machine.configure("", "allowed = ['mytool']");
    let told = stage.bring_up().succeeds().stderr_contains("host commands need this line");
    stage.sh("mytool x").code(255).stdout("");
    let told = told.messages();
    let line = told.lines().find(|line| line.starts_with("restrict,command=")).unwrap();
    stage.world.host(["sh", "-c", &format!("echo '{line}' >> {KEYS}")]).succeeds();
    stage.sh("mytool x").succeeds().stdout("<x>\n");
    // An image without a client is refused before anything runs.
    let text = stage.world.read("project/sandbox.toml");
    let text = text.replace(stage.docker.ssh_client(), stage.docker.busybox());
    stage.world.write("project/sandbox.toml", text);
    stage.bring_up().code(125).stderr_contains("has no `ssh`").stderr_contains("openssh-client");
    assert!(stage.containers().is_empty());
}

#[test]
fn wishes_that_ssh_cannot_meet_are_refused_before_anything_is_made() {
    for (keys, said) in [
        ("network = 'none'", "Unix socket"),
        ("network = { allowed_hosts = ['a.io'] }", "Unix socket"),
        ("network = 'host'\nagent.user = 'node'", "as a number"),
        ("network = 'host'\nhost_commands.host_key = 'yes'", "accept-new"),
        ("network = 'host'\nhost_commands.ssh_key_secret = '../x'", "invalid secret name `../x`"),
    ] {
        let stage = Stage::new(&format!(
            "{keys}\nhost_commands.enabled = true\nhost_commands.transport = 'ssh'\nhost_commands.user = 'x'\nhost_commands.allowed = ['uname']\n"
        ));
        stage.bring_up().code(125).stderr_contains(said);
        assert!(stage.id().is_none(), "{keys}");
    }
}
