//! Commands of the host, asked for in a container.

use std::fs;

use super::stage::Stage;

const GIT: &str =
    "[host_commands]\nenabled = true\nallowed = ['git status', 'git log', 'no-such-program']";

fn repository(stage: &Stage) {
    // Git acts for whoever owns the project.
    stage.world.host(["chown", "-R", "0:0", "."]).succeeds();
    stage.world.clone().git_init("project");
    stage.world.host(["chown", "-R", "1000:1000", "."]).succeeds();
}

/// The image has no git at all: whatever answers is the host's.
#[test]
fn host_commands_run_on_the_host_without_a_network() {
    let stage = Stage::new(GIT);
    repository(&stage);
    let up = stage.bring_up().succeeds();
    assert!(
        up.messages().contains("host commands `git status`, `git log`, `no-such-program`"),
        "{up}"
    );
    stage.sh("git log --format=%s").succeeds().stdout("start\n");
    stage.sh("mkdir sub; cd sub; echo x > y; git status --short").succeeds().stdout("?? ./\n");
    stage.sh("git status /etc").code(1).stderr_contains("denied: git\n");
    stage.sh("git status | head -n 1; echo x | git log --format=%s; exec git status --no-such-option").code(129).stdout("On branch main\nstart\n");
    stage.sh("git push").code(127).stderr_contains("agent-sandbox: ");
    stage.sh("no-such-program").code(127).stderr_contains("is not installed on the host");
    stage.sh("cd /tmp && git status").code(1).stderr_contains("the working directory `/tmp`");
    // Nothing of it can be changed from inside.
    stage.sh("echo > /run/agent-sandbox/bridge/routes.json").fails();
    stage.sh("rm /run/agent-sandbox/bridge/socket").fails();
    let log =
        format!("home/.local/state/agent-sandbox/host-commands/{}.jsonl", stage.id().unwrap());
    assert!(stage.world.read(&log).contains("\"outcome\":\"denied\""));
    stage.down().succeeds();
    assert!(stage.world.has(log));
}

#[test]
fn a_broker_that_was_killed_is_there_again_and_goes_with_its_session() {
    let stage = Stage::new(GIT);
    repository(&stage);
    stage.bring_up().succeeds();
    let mark = stage
        .world
        .path(format!("home/.local/share/agent-sandbox/boxes/{}/broker/pid", stage.id().unwrap()));
    let pid =
        || fs::read_to_string(&mark).unwrap().split(' ').next().unwrap().parse::<i32>().unwrap();
    let first = pid();
    stage.world.host(["kill", "-KILL", &first.to_string()]).succeeds();
    stage.sh("git log --format=%s").succeeds().stdout("start\n");
    let second = pid();
    assert_ne!(first, second);
    stage.down().succeeds();
    let stat = fs::read_to_string(format!("/proc/{second}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    stage.bring_up().succeeds();
    stage.sh("git log --format=%s").succeeds().stdout("start\n");
}

/// Off means nothing: no socket, no shim, no route, no process.
#[test]
fn a_session_without_host_commands_has_no_trace_of_them() {
    for config in [
        "",
        "[host_commands]\nenabled = false\nallowed = ['git status']",
        "[host_commands]\nallowed = ['git status']",
    ] {
        let stage = Stage::up(config);
        stage.sh("ls /run/agent-sandbox/bridge").fails();
        stage.sh("echo $PATH").stdout_lacks("bridge");
        stage.sh("git status").code(127);
        let boxes =
            stage.world.path("home/.local/share/agent-sandbox/boxes").join(stage.id().unwrap());
        assert!(boxes.is_dir() && !boxes.join("bridge").is_dir() && !boxes.join("broker").is_dir());
        assert!(stage.inspect("{{.HostConfig.ExtraHosts}}").trim_matches(['[', ']']).is_empty());
    }
}

#[test]
fn ssh_without_a_network_is_an_error_that_names_the_socket() {
    let stage = Stage::new(
        "network = 'none'\n[host_commands]\nenabled = true\ntransport = 'ssh'\nuser = 'pipo-runner'\nallowed = ['pipo']",
    );
    stage
        .bring_up()
        .code(125)
        .stderr_contains("needs a network")
        .stderr_contains("the Unix socket works without a network");
    assert!(stage.id().is_none());
    let stage = Stage::new("[host_commands]\nenabled = true");
    stage.bring_up().code(125).stderr_contains("allows nothing");
}

/// The document's own example, as it is typed; only the paths of the host are the test's.
#[test]
fn the_whole_example_works_as_typed() {
    let stage = Stage::new("");
    let world = &stage.world;
    fs::remove_file(world.path("project/sandbox.toml")).unwrap();
    let (foo, config) = (world.path("projects/foo"), world.path("miclaw/workspace"));
    for dir in [&foo, &config] {
        fs::create_dir_all(dir).unwrap();
        std::os::unix::fs::chown(dir, Some(1000), Some(1000)).unwrap();
    }
    let text = format!(
        r#"{{
  "image": "{}",
  "sandbox": {{
    "network": "none",
    "mounts": [
      {{"host": "{}", "container": "/workspace", "mode": "rw"}},
      {{"host": "{}", "container": "/config", "mode": "ro"}}
    ],
    "host_commands": {{
      "enabled": true,
      "ssh_key_secret": "ssh_key",
      "user": "pipo-runner",
      "host": "host.docker.internal",
      "allowed": ["pipo"]
    }}
  }}
}}"#,
        stage.docker.busybox(),
        foo.display(),
        config.display(),
    );
    world.write("project/.agent-sandbox.json", text);
    stage.bring_up().succeeds();
    stage.sh("pipo x").code(127).stderr_contains("`pipo` is not installed on the host");
    stage.sh("touch /workspace/x && ! touch /config/x").succeeds();
}
