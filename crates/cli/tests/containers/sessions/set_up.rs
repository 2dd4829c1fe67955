//! Set-up by the first process before the agent starts: a clone, and a Docker daemon.

use testkit::{Docker, need};

use super::stage::{NAME, Stage};

/// Creates an image with this machine's git.
fn with_git(docker: &Docker) -> String {
    let core = docker.world().host(["git", "--exec-path"]).succeeds().output();
    let remote = std::path::Path::new(core.trim()).join("git-remote-http");
    docker.with_programs("as-test-git", &[need("git"), remote])
}

#[test]
fn a_workspace_is_cloned_by_name_and_without_a_network() {
    let docker = Docker::new();
    let image = with_git(&docker);
    let world = docker.world().clone().git_init("origin");
    let git = |words: &[&str]| {
        let line = ["git", "-C", "../origin"].iter().chain(words);
        world.host(line).succeeds().output()
    };
    git(&["commit", "--quiet", "--allow-empty", "--message", "second"]);
    git(&["update-server-info"]);
    let first = git(&["rev-parse", "HEAD~1"]);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let serve =
        ["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", "../origin"];
    let server = world.start(serve.iter().copied().chain([port.to_string().as_str()]));
    server.wait_for("port ");
    // Programs connect directly to a host of this name, unless they are told otherwise.
    let network = format!(
        "env = {{ NO_PROXY = '', no_proxy = '' }}\nnetwork = {{ private_hosts = ['localhost:{port}'] }}"
    );
    let clone = format!("path = 'http://localhost:{port}/.git'");
    let stage = Stage::on(docker.clone(), &image, &format!("{network}\nworkspace = {{ {clone} }}"));
    stage.bring_up().succeeds();
    stage
        .sh("pwd; git log --format=%s; echo x > new; stat -c %U new; ls /sys/class/net")
        .succeeds()
        .stdout("/.data/agent/workspace\nsecond\nstart\nagent\nlo\n");
    // It outlives the container, and is not cloned again.
    stage.world.run(["--trust", "restart", NAME]).succeeds();
    stage.sh("cat new").succeeds().stdout("x\n");
    stage.world.run(["rm", NAME]).succeeds();
    // A commit, and a layer below the home directory that keeps the changes.
    for cow in ["overlay", "none"] {
        let text = format!(
            "image = '{image}'\n{network}\nworkspace = {{ {clone}, commit = '{}', cow = '{cow}' }}",
            first.trim()
        );
        stage.world.write("project/sandbox.toml", text.replace(", cow = 'none'", ""));
        stage.bring_up().succeeds();
        stage.sh("git log --format=%s").succeeds().stdout("start\n");
        stage.world.run(["rm", NAME]).succeeds();
    }
    // The control: if the name is not allowed, there is no clone, and the error says so.
    stage
        .world
        .write("project/sandbox.toml", format!("image = '{image}'\nworkspace = {{ {clone} }}\n"));
    stage.bring_up().code(125).stderr_contains("the workspace failed");
}

#[test]
fn a_docker_daemon_runs_beside_the_agent_and_only_there() {
    let docker = Docker::new();
    let programs = ["dockerd", "docker", "containerd", "containerd-shim-runc-v2", "runc"].map(need);
    let image = docker.with_programs("as-test-dockerd", &programs);
    let stage = Stage::on(docker, &image, "services.dockerd = 'required'");
    // On a machine whose root lacks a capability, no privileged container can start, and the error says so.
    let control = stage.docker.once(["--privileged", &image, "/bin/busybox", "true"]);
    if !control.status().success() {
        control.stderr_contains("unable to apply caps");
        stage
            .bring_up()
            .code(125)
            .stderr_contains("granted: privileged")
            .stderr_contains("root lacks a capability");
        assert!(stage.containers().is_empty());
        return;
    }
    stage.bring_up().succeeds().stderr_contains("granted: privileged");
    let script = "tar -c -C / bin | docker import - own >/dev/null && docker run --rm --network none own /bin/echo from-inside";
    stage.sh(script).succeeds().stdout("from-inside\n");
    stage.sh("id -u").succeeds().stdout("1000\n");
    // The machine's own daemon does not know the image.
    stage.docker.run(["images", "--quiet", "own"]).succeeds().stdout("");
    stage.down().succeeds();
    // Its data is kept for the next start.
    stage.bring_up().succeeds();
    stage.sh("docker images --format '{{.Repository}}'").succeeds().stdout("own\n");
    // Without a daemon in the image there is none, and if one is required, there is no session.
    stage.configure("services.dockerd = 'auto'");
    stage.bring_up().succeeds();
    stage.sh("ls /var/run/docker.sock").fails();
    stage.configure("services.dockerd = 'required'");
    stage.bring_up().code(125).stderr_contains("dockerd");
}
