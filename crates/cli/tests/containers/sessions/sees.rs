//! The agent's view: the table of the image's architecture, and the five points of its security model.

use testkit::Docker;

use super::stage::{KEY, NAME, Provider, Stage};

/// All rows of the table in one session: only shared mounts, no control variables, injected secrets, base URLs
/// of providers, a network that leads only to the proxy.
#[test]
fn the_agent_sees_what_was_shared_and_nothing_else() {
    let provider = Provider::new();
    let address = &provider.address;
    let config = format!(
        "[shared_dirs]\noutput = {{ host = '../out put', guest = '/output' }}\n\
         [secrets.plain]\nenv_var = 'PLAIN'\n\
         [secrets.anthropic]\nmode = 'proxy'\nenv_var = 'ANTHROPIC_API_KEY'\nupstream_url = 'http://{address}'\n"
    );
    let stage = Stage::new(&config).with("PLAIN", "in the open").with("ANTHROPIC_API_KEY", KEY);
    let stage = Stage {
        world: stage.world.clone().dir("out put").file("home/.ssh/id", "host's"),
        docker: stage.docker.clone(),
    };
    std::os::unix::fs::chown(stage.world.path("out put"), Some(1000), Some(1000)).unwrap();
    stage.bring_up().succeeds();
    // The host's file system: only shared directories.
    stage.sh("echo result > /output/file").succeeds();
    assert_eq!(stage.world.read("out put/file"), "result\n");
    let outside = stage.world.path("home/.ssh/id").display().to_string();
    stage.sh(&format!("cat '{outside}'")).fails();
    stage.sh("ls /home").succeeds().stdout("agent\n");
    // Control plane secrets: none, in no file or variable.
    let look = "env; cat /proc/1/environ; cat /proc/*/environ 2>/dev/null; cat /run/agent-sandbox/private/control/control";
    let run = stage.sh(look);
    for hidden in ["SESSION_TOKEN", "SESSION_ID", "CONTROL_PLANE_URL", "AGENT_COMMAND", KEY] {
        assert!(!run.output().contains(hidden), "{hidden}");
    }
    // Injected secrets, and base URLs of providers.
    stage
        .sh("echo \"$PLAIN at $ANTHROPIC_BASE_URL\"")
        .succeeds()
        .stdout("in the open at http://127.0.0.1:3128\n");
    // Requests go through the proxy, with the real key. Nothing else leaves the container.
    let ask =
        "wget -q -O - --header \"x-api-key: $ANTHROPIC_API_KEY\" $ANTHROPIC_BASE_URL/v1/models";
    stage.sh(ask).succeeds().stdout("answer\n");
    assert_eq!(provider.shown(), [KEY]);
    stage.sh(&format!("wget -q -O - http://{address}/")).fails();
    stage.sh("nslookup example.com 127.0.0.1").fails();
    // The engine shows no variable of the container with the key either.
    assert!(!stage.inspect("{{.Config.Env}}").contains(KEY));
    assert!(!stage.inspect("{{.Config.Env}}").contains("SESSION_TOKEN"));
}

#[test]
fn check_is_found_by_its_name_in_a_session() {
    let stage = Stage::up("");
    let by_path = stage.sh("/run/agent-sandbox/agent-sandbox check").succeeds().output();
    stage.sh("agent-sandbox check").succeeds().stdout(&by_path);
    // The control: outside, the same command reports no sandbox.
    stage.world.run(["check"]).fails();
}

/// The five points: stripped variables, no root, no remains of the first process, exec instead of a
/// shell, unchanged arguments.
#[test]
fn the_security_model_holds_in_a_session() {
    let script =
        "env; id; cat /proc/self/status; echo \"args: $1|$2\"; trap exit TERM; sleep 1000 & wait";
    let args = format!(
        "agent = {{ command = 'sh', args = ['-c', '''{script}''', 'sh', '$(id)', '; id'] }}"
    );
    let stage = Stage::up(&args);
    let log = stage.world.run(["logs", NAME]).succeeds().output();
    assert!(log.contains("args: $(id)|; id\n"), "no shell reads arguments: {log}");
    assert!(log.contains("uid=1000(agent) gid=1000(agent)"), "{log}");
    for line in
        ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"]
    {
        assert!(log.contains(line), "{line}: {log}");
    }
    for hidden in ["SESSION_", "AGENT_COMMAND", "AGENT_USER", "CONTROL_PLANE"] {
        assert!(!log.contains(hidden), "{hidden}: {log}");
    }
    stage.sh("cat /run/agent-sandbox/control/control").fails();
    // The only process of ours is the one that serves this command.
    stage.sh("ps | grep '[a]gent-sandbox-init' | grep -vc ' attend '").stdout("0\n");
}

/// The local policy applies inside: path rules, command rules, `check`.
#[test]
fn rules_for_paths_and_commands_hold_inside() {
    let stage = Stage::new(
        "filesystem = { ro = ['docs'], exclude = ['key', 'private'] }\ncommands.wget = false\n",
    );
    for (file, text) in
        [("docs/a", "doc\n"), ("key", "hush\n"), ("private/x", "hush\n"), ("free", "free\n")]
    {
        stage.world.write(format!("project/{file}"), text);
    }
    stage.world.host(["chown", "-R", "1000:1000", "."]).succeeds();
    stage.bring_up().succeeds();
    stage.sh("cat docs/a free key; ls private; echo new > free").succeeds().stdout("doc\nfree\n");
    stage.sh("echo x > docs/a").fails();
    stage.sh("rm -r docs").fails();
    stage.sh("echo x > sandbox.toml").fails();
    // By name, as a program would search for it: this shell has a builtin.
    stage
        .world
        .run(["exec", "-s", NAME, "wget", "http://127.0.0.1/"])
        .code(1)
        .stderr_contains("command 'wget' is blocked");
    stage.sh("/run/agent-sandbox/agent-sandbox check").succeeds().stdout("inside sandbox\n");
    assert_eq!(stage.world.read("project/free"), "new\n");
    assert_eq!(stage.world.read("project/key"), "hush\n");
}

/// Some engines give a tmpfs the mode of the image's directory.
#[test]
fn tmp_is_writable_whatever_its_mode_is_in_the_image() {
    let agent = "agent = { command = 'sleep', args = ['1000'], init = 'exec' }";
    for (image_mode, config) in
        [("0755", ""), ("0755", agent), ("1777", ""), ("1777", agent), ("0700", agent)]
    {
        let docker = Docker::new();
        let image = docker.with_tmp_mode(image_mode);
        let stage = Stage::on(docker, &image, config);
        stage.bring_up().succeeds();
        let run = stage.sh("stat -c %a /tmp; echo yes > /tmp/new; cat /tmp/new").succeeds();
        run.stdout("1777\nyes\n");
    }
}
