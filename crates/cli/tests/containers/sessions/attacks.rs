//! Attacks on the container itself, each with its control. Others are in the module of their topic: C4 and C6 in
//! mounts, C9 in life, C11, N14 and N15 in network.

use testkit::Signal;

use super::listened::Listened;
use super::stage::{NAME, Provider, Stage};

/// C1: keys that would remove a restriction do not exist.
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

/// C8, C10: a command that enters runs as the agent's user, in the container's
/// own root, with any flags.
#[test]
fn c8_c10_every_process_that_enters_is_the_agent() {
    let stage = Stage::up("");
    stage.sh("id -u").succeeds().stdout("1000\n");
    stage
        .world
        .run(["exec", "-s", NAME, "/run/agent-sandbox/agent-sandbox-init", "enter", "id", "-u"])
        .succeeds()
        .stdout("1000\n");
    // A process with access to the engine's socket could ask for root. Our own `exec` refuses it.
    let enter = ["/run/agent-sandbox/agent-sandbox-init", "enter", "id"];
    let container = stage.container();
    let first = ["exec", "-u", "0", &container];
    let run = stage.docker.run(first.into_iter().chain(enter));
    run.code(125).stderr_contains("cannot enter as root");
    // A working directory that leads out of the container is refused.
    let out = ["exec", "-u", "1000", "-w", "/proc/self/fd/8", &container];
    stage.docker.run(out.into_iter().chain(enter)).fails();
    stage.sh("cat /proc/1/environ").fails();
    stage.sh("readlink /proc/1/root").fails();
}

/// C5: an image with hostile settings.
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

/// C2 (CVE-2024-21626): a path below `/proc/self/fd` is never passed to the runtime. The command changes to the agent's
/// directory itself, as the agent. `doctor` names vulnerable runtimes.
#[test]
fn c2_no_directory_of_the_agents_is_ever_the_runtimes() {
    let (stage, engine) = Listened::new(Stage::new(""));
    stage.world.write("project/trap/file", "here\n");
    stage.world.host(["chown", "-R", "1000:1000", "."]).succeeds();
    stage.bring_up().succeeds();
    let dir = stage.world.path("project/trap").display().to_string();
    let sh = |script: &str| stage.world.run(["exec", "-s", NAME, "-C", &dir, "sh", "-c", script]);
    sh("cat file").succeeds().stdout("here\n");
    stage.sh("rm -r trap && ln -s /proc/self/fd/99 trap").succeeds();
    sh("pwd").code(125).stderr_contains("cannot change to the directory `/workspace/trap`");
    let said = engine.said();
    assert!(said.contains(r#""WorkingDir":"/""#), "{said}");
    assert!(!said.contains(r#""WorkingDir":"/workspace"#), "{said}");
    // The control: with the engine's own `exec`, the runtime changes to that directory.
    let line = ["docker", "exec", "-u", "1000", "-w", "/workspace/trap", &stage.container(), "pwd"];
    stage.world.host(line);
    assert!(engine.said().contains(r#""WorkingDir":"/workspace/trap""#));
    stage.world.run(["doctor"]).stdout_contains("with runc ");
}

/// C3: files pass through mounts and commands inside. The API calls by which an engine unpacks archives are not used.
#[test]
fn c3_the_engine_never_packs_or_unpacks_anything() {
    let (stage, engine) = Listened::new(Stage::new(""));
    stage.bring_up().succeeds();
    stage.sh("echo one > file").succeeds();
    let server = stage.world.spawn(["serve"]);
    server.wait_for_message("serving at");
    let socket = stage.world.path("home/.local/share/agent-sandbox/api.sock").display().to_string();
    let url = format!("http://localhost/v1/sessions/{NAME}/files?path=file");
    let curl = ["curl", "-sf", "--unix-socket", &socket, &url];
    stage.world.host(curl).succeeds().stdout("one\n");
    stage.world.host(curl.into_iter().chain(["-X", "PUT", "--data-binary", "two"])).succeeds();
    stage.world.host(curl).succeeds().stdout("two");
    server.signal(Signal::TERM);
    server.wait().succeeds();
    stage.world.run(["logs", NAME]).succeeds();
    stage.down().succeeds();
    stage.bring_up().succeeds();
    let unpacks =
        |said: &str| ["/archive", "/export", "/copy"].iter().any(|call| said.contains(call));
    assert!(engine.said().contains("/exec") && !unpacks(&engine.said()), "{}", engine.said());
    // The control: such a call would be seen.
    engine.forget();
    let from = format!("{}:/etc/passwd", stage.container());
    stage.world.host(["docker", "cp", &from, "."]).succeeds();
    assert!(unpacks(&engine.said()), "{}", engine.said());
}

/// C7: an engine that listens on any address of this machine.
#[test]
fn c7_an_engine_that_listens_by_tcp_is_out_of_reach() {
    let engines: Vec<Provider> =
        addresses().into_iter().map(|address| Provider::at(&format!("{address}:0"))).collect();
    let ask = |engine: &Provider| format!("wget -q -O - http://{}/version", engine.address);
    for network in ["network = 'none'", "network = { allowed_hosts = ['example.com'] }"] {
        let stage = Stage::up(network);
        for engine in &engines {
            stage.sh(&ask(engine)).fails();
            let by_proxy = format!("http_proxy=http://127.0.0.1:3128 {}", ask(engine));
            stage.sh(&by_proxy).fails();
            assert_eq!(engine.shown(), [""; 0], "{network}: {}", engine.address);
        }
    }
    // The control: with the host's network, it is reachable.
    let stage = Stage::up("network = 'host'");
    for engine in &engines {
        stage.sh(&ask(engine)).succeeds().stdout("answer\n");
    }
}

/// Returns this machine's loopback address, and its source address for outgoing packets, if there is one.
fn addresses() -> Vec<String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // `connect` of a UDP socket sends nothing. The kernel only selects a route.
    let out = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    let mut all = vec!["127.0.0.1".to_owned()];
    all.extend(out.ok().map(|address| address.ip().to_string()));
    all
}
