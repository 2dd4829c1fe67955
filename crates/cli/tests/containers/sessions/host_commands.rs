//! Commands that run on the host, from a container without a network.

use super::stage::{NAME, Stage};

/// The complete example of the sandboxing guide, with a program that every machine has.
fn example(stage: &Stage, enabled: bool) -> String {
    let (work, config) = (stage.world.path("foo"), stage.world.path("config"));
    format!(
        r#"{{ "image": "{}", "sandbox": {{ "network": "none",
            "mounts": [
                {{ "host": "{}", "container": "/workspace", "mode": "rw" }},
                {{ "host": "{}", "container": "/config", "mode": "ro" }}
            ],
            "host_commands": {{
                "enabled": {enabled}, "ssh_key_secret": "ssh_key", "user": "pipo-runner",
                "host": "host.docker.internal", "allowed": ["uname"]
            }} }} }}"#,
        stage.docker.busybox(),
        work.display(),
        config.display()
    )
}

#[test]
fn an_allowed_command_runs_on_the_host_and_every_other_one_inside() {
    let stage = Stage::new("");
    std::fs::remove_file(stage.world.path("project/sandbox.toml")).unwrap();
    for dir in ["foo", "config"] {
        std::fs::create_dir(stage.world.path(dir)).unwrap();
        std::os::unix::fs::chown(stage.world.path(dir), Some(1000), Some(1000)).unwrap();
    }
    stage.world.write("project/.agent-sandbox.json", example(&stage, true));
    stage.bring_up().succeeds().stderr_contains("granted: host commands uname");
    let machine = stage.world.host(["uname", "-n"]).output();
    let name =
        |program: &str, flag: &str| stage.world.run(["exec", "-s", NAME, program, flag]).output();
    assert_eq!(name("uname", "-n"), machine, "on the host");
    assert_eq!(name("/bin/uname", "-n"), "sandbox\n", "its own program");
    assert_eq!(stage.world.run(["exec", "-s", NAME, "hostname"]).output(), "sandbox\n");
    stage.world.run(["exec", "-s", NAME, "uname", "--no-such-option"]).fails();
    // The next client restarts a broker that was killed.
    let lock = format!("home/.local/share/agent-sandbox/boxes/{}/broker.lock", stage.id().unwrap());
    let held = stage.world.read(&lock);
    stage.world.host(["kill", "-KILL", held.split(' ').next().unwrap()]).succeeds();
    stage.world.run(["exec", "-s", NAME, "uname", "-n"]).succeeds().stdout(&machine);
    stage.down().succeeds();
    assert!(!stage.world.has(&lock));
    // Disabled: no socket, no shim, no connection.
    stage.world.write("project/.agent-sandbox.json", example(&stage, false));
    stage.bring_up().succeeds().stderr_lacks("host commands");
    assert_eq!(name("uname", "-n"), "sandbox\n");
    stage.sh("ls /run/agent-sandbox/bridge").fails();
}

#[test]
fn ssh_without_a_network_names_the_socket() {
    let stage = Stage::new(
        "host_commands = { enabled = true, transport = 'ssh', user = 'x', allowed = ['uname'] }",
    );
    stage.bring_up().code(125).stderr_contains("needs a network").stderr_contains("Unix socket");
}

/// The image has no git, so the answer comes from the host's, in the shared directory.
#[test]
fn git_of_the_host_works_in_the_workspace_and_nowhere_else() {
    let stage = Stage::new(
        "[host_commands]\nenabled = true\nallowed = ['git status', 'git log', 'no-such-program']",
    );
    // Git acts as the owner of the project.
    stage.world.host(["chown", "-R", "0:0", "."]).succeeds();
    stage.world.clone().git_init("project");
    stage.world.host(["chown", "-R", "1000:1000", "."]).succeeds();
    stage.bring_up().succeeds();
    stage.sh("git log --format=%s").succeeds().stdout("start\n");
    stage.sh("mkdir sub; cd sub; echo x > y; git status --short").succeeds().stdout("?? ./\n");
    stage.sh("git status | head -n 1; exec git status --no-such-option").code(129);
    stage.sh("git status /etc").code(1).stderr_contains("denied: git\n");
    stage.sh("cd /tmp && git status").code(1).stderr_contains("the working directory `/tmp`");
    stage.sh("git push").code(127).stderr_contains("agent-sandbox: ");
    stage.sh("no-such-program").code(127).stderr_contains("is not installed on the host");
    // No file of the bridge can be changed from inside.
    stage.sh("echo > /run/agent-sandbox/bridge/routes.json").fails();
    stage.sh("rm /run/agent-sandbox/bridge/socket").fails();
    // Requests are logged, also after the end of the session.
    stage.down().succeeds();
    let log = format!("host-commands/{}.jsonl", stage.id().unwrap());
    let log = stage.world.read(format!("home/.local/state/agent-sandbox/{log}"));
    assert!(
        log.contains("\"outcome\":\"denied\"") && log.contains("\"outcome\":\"ended\""),
        "{log}"
    );
}
