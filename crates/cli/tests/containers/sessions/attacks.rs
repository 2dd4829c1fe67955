//! Attacks on the container itself, each with its control. Others stand beside what they attack: C4 and C6 with
//! mounts, C9 with life, C11, N14 and N15 with networks.

use super::stage::{NAME, Stage};

/// C1: keys that would take the walls down are no keys.
#[test]
fn c1_privileges_cannot_be_smuggled_in_by_a_configuration() {
    for line in [
        "privileged = true",
        "cap_add = ['SYS_ADMIN']",
        "devices = ['/dev/sda']",
        "security_opt = ['seccomp=unconfined']",
        "pid = 'host'",
        "agent = { privileged = true }",
        "resources = { devices = ['x'] }",
        "network = 'host --privileged'",
        "agent.user = 'root'",
        "agent.user = '0:0'",
        "env.AGENT_USER = 'root'",
        "runtime = 'no-such-runtime'",
    ] {
        let stage = Stage::new(line);
        stage.bring_up().code(125);
        assert!(stage.id().is_none(), "{line}");
    }
    let stage = Stage::up("agent.user = '1000'");
    stage.sh("id -u").succeeds().stdout("1000\n");
}

/// C3, C8, C10: the engine's archive calls are not used; whoever enters is the agent's user, in the container's
/// own root, whatever it asks for.
#[test]
fn c8_c10_whoever_enters_is_the_agent() {
    let stage = Stage::up("");
    stage.sh("id -u").succeeds().stdout("1000\n");
    stage
        .world
        .run(["exec", "-s", NAME, "/run/agent-sandbox/agent-sandbox-init", "enter", "id", "-u"])
        .succeeds()
        .stdout("1000\n");
    // The engine could be asked for root by whoever has its socket; our own way in refuses it.
    let enter = ["/run/agent-sandbox/agent-sandbox-init", "enter", "id"];
    let container = stage.container();
    let first = ["exec", "-u", "0", &container];
    let run = stage.docker.run(first.into_iter().chain(enter));
    run.code(125).stderr_contains("only the agent's user enters");
    // A working directory that leads out of the container is not gone to.
    let out = ["exec", "-u", "1000", "-w", "/proc/self/fd/8", &container];
    stage.docker.run(out.into_iter().chain(enter)).fails();
    stage.sh("cat /proc/1/environ").fails();
    stage.sh("readlink /proc/1/root").fails();
}

/// C5: an image that wants to be obeyed.
#[test]
fn c5_nothing_of_a_hostile_image_is_obeyed() {
    let stage = Stage::new("");
    let evil = format!("{}-evil", stage.docker.busybox().replace(':', "-"));
    let container =
        stage.docker.run(["create", stage.docker.busybox(), "true"]).succeeds().output();
    let container = container.trim().to_owned();
    let changes = [
        "ENTRYPOINT [\"/bin/sh\", \"-c\", \"echo hijacked; sleep 1000\"]",
        "CMD [\"evil\"]",
        "USER root",
        "WORKDIR /etc",
        "ENV AGENT_USER=root LD_PRELOAD=/evil.so HTTPS_PROXY=http://evil SESSION_ID=evil PATH=/bin",
        "LABEL agent-sandbox.session=evil agent-sandbox.state=evil",
        "VOLUME /writable",
        "HEALTHCHECK CMD touch /tmp/health",
    ];
    let mut line = vec!["commit".to_owned()];
    line.extend(changes.iter().flat_map(|change| ["--change".to_owned(), (*change).to_owned()]));
    line.extend([container.clone(), evil.clone()]);
    stage.docker.run(line).succeeds();
    stage.docker.run(["rm", &container]).succeeds();
    stage.world.write("project/sandbox.toml", format!("image = '{evil}'\n"));
    stage.bring_up().succeeds();
    stage.sh("id -u; pwd; env | grep -E 'evil|LD_PRELOAD|_PROXY'").stdout("1000\n/workspace\n");
    stage.sh("touch /writable/x").fails();
    stage.docker.run(["logs", &stage.container()]).stdout_lacks("hijacked");
    assert_eq!(
        stage.inspect("{{.Config.Healthcheck.Test}} {{.Config.StopSignal}}"),
        "[NONE] SIGTERM"
    );
    assert!(stage.inspect("{{.Image}}").starts_with("sha256:"));
    assert!(!stage.inspect("{{range .Mounts}}{{.Type}} {{end}}").contains("volume"));
    assert_ne!(stage.inspect("{{index .Config.Labels \"agent-sandbox.session\"}}"), "evil");
    stage.world.run(["rm", NAME]).succeeds();
    stage.docker.run(["rmi", &evil]).succeeds();
}
