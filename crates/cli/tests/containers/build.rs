//! `agent-sandbox image build`: images and error messages.

use testkit::Docker;

use crate::images;

#[test]
fn sandbox_has_the_user_the_workspace_and_the_tools() {
    let docker = Docker::new();
    let image = images::sandbox(&docker);
    let look = "id -u; id -g; stat -c %u:%g /workspace /home/agent; pwd; \
                for tool in bash curl git ssh python3 node npm; do command -v $tool >/dev/null || echo lacks $tool; done";
    docker
        .once([image, "bash", "-c", look])
        .succeeds()
        .stdout("1000\n1000\n1000:1000\n1000:1000\n/workspace\n");
    docker.once([image, "python3", "-c", "print(6 * 7)"]).succeeds().stdout("42\n");
    docker.once([image, "node", "-p", "6 * 7"]).succeeds().stdout("42\n");
    docker.once([image, "sh", "-c", "touch /workspace/x && ! touch /etc/x 2>/dev/null"]).succeeds();
}

#[test]
fn sandbox_carries_labels_and_no_command() {
    let docker = Docker::new();
    let format = "{{index .Config.Labels \"org.opencontainers.image.version\"}} {{.Config.Cmd}} {{.Config.Entrypoint}} {{.Config.WorkingDir}}";
    let seen = format!("{} [] [/usr/local/bin/entrypoint] /workspace\n", env!("CARGO_PKG_VERSION"));
    docker
        .run(["image", "inspect", "--format", format, images::entrypoint(&docker)])
        .succeeds()
        .stdout(&seen);
}

#[test]
fn minimal_has_a_shell_and_an_ssh_client_and_no_distribution() {
    let docker = Docker::new();
    let image = images::minimal(&docker);
    docker
        .once([image, "sh", "-c", "id -u; id -g; pwd; stat -c %U . ~"])
        .succeeds()
        .stdout("1000\n1000\n/workspace\nagent\nagent\n");
    docker.once([image, "ssh", "-V"]).succeeds().stderr_contains("OpenSSH");
    docker.once([image, "apt-get", "--version"]).code(1).stderr_contains("apt-get");
    docker.once([docker.debian(), "apt-get", "--version"]).succeeds();
}

#[test]
fn a_base_that_has_the_packages_needs_no_network() {
    let docker = Docker::new();
    let tag = format!("as-test-offline:{}", std::process::id());
    let build = |packages: &str| {
        docker.sandbox([
            "image",
            "build",
            "--base",
            docker.debian(),
            "--tag",
            &tag,
            "--packages",
            packages,
            "--",
            "--network",
            "none",
        ])
    };
    build("bash tar").succeeds();
    build("bash python3").code(1).stderr_contains("error: `docker build` failed");
}

#[test]
fn a_base_takes_the_user_though_its_number_is_taken() {
    let docker = Docker::new();
    let base = format!("as-test-taken:{}", std::process::id());
    let text = format!(
        "FROM {}\nRUN echo other:x:1000:1000::/:/bin/sh >> /etc/passwd\n",
        docker.busybox()
    );
    docker.world().write("project/Dockerfile", text);
    docker.run(["build", "--quiet", "--tag", &base, "."]).succeeds();
    docker.once(["--user", "1000", &base, "id", "-un"]).succeeds().stdout("other\n");
    let tag = format!("as-test-given:{}", std::process::id());
    docker.sandbox(["image", "build", "--base", &base, "--tag", &tag, "--packages", ""]).succeeds();
    docker.once([tag.as_str(), "id", "-un"]).succeeds().stdout("agent\n");
}

#[test]
fn a_base_without_a_package_manager_is_named_with_the_remedy() {
    let docker = Docker::new();
    let run =
        docker.sandbox(["image", "build", "--base", docker.busybox(), "--tag", "as-test-none"]);
    run.code(1).stderr_contains("neither apk nor apt-get").stderr_contains("hint: ").stdout("");
}

#[test]
fn a_base_that_cannot_be_had_is_named() {
    let docker = Docker::new();
    let run = docker.sandbox(["image", "build", "--base", "registry.invalid/nothing:1"]);
    run.code(1)
        .stderr_contains("cannot pull the base image `registry.invalid/nothing:1`")
        .stderr_contains("--base IMAGE");
}

#[test]
fn without_docker_or_its_daemon_the_remedy_is_named() {
    let docker = Docker::new();
    let world = docker.world().clone();
    let build = ["image", "build", "--base", docker.busybox()];
    let lost = world.clone().env("PATH", "/nowhere").run(build);
    lost.code(1)
        .stderr_contains("cannot find `docker` in PATH")
        .stderr_contains("apt install docker.io");
    let silent = world.env("DOCKER_HOST", "unix:///nowhere/socket").run(build);
    silent.code(1).stderr_contains("cannot reach the Docker daemon").stderr_contains("DOCKER_HOST");
}

#[test]
fn a_full_disk_is_named() {
    let docker = Docker::new();
    let base = format!("as-test-full:{}", std::process::id());
    // 64 MB of shared memory fill up soon.
    let text =
        format!("FROM {}\nONBUILD RUN dd if=/dev/zero of=/dev/shm/x bs=1M\n", docker.busybox());
    docker.world().write("project/Dockerfile", text);
    docker.run(["build", "--quiet", "--tag", &base, "."]).succeeds();
    let run = docker.sandbox([
        "image",
        "build",
        "--base",
        &base,
        "--tag",
        "as-test-none",
        "--packages",
        "",
    ]);
    run.code(1).stderr_contains("docker system prune");
}

#[test]
fn programs_must_be_there_and_static() {
    let docker = Docker::new();
    let build =
        |init: &str| docker.sandbox(["image", "build", "--base", docker.busybox(), "--init", init]);
    build("/bin/sh").code(1).stderr_contains("is not statically linked");
    build("/nowhere").code(1).stderr_contains("cannot read `/nowhere`");
    let alone = docker.world().path("home/agent-sandbox");
    std::fs::copy(docker.world().binary(), &alone).unwrap();
    let run = docker.world().clone().with_program(alone).run(["image", "build"]);
    run.code(1)
        .stderr_contains("cannot find `agent-sandbox-init` in")
        .stderr_contains("--init FILE");
}

#[test]
fn dry_run_prints_the_dockerfile_and_json_says_what_was_built() {
    let docker = Docker::new();
    let run = docker.sandbox(["image", "build", "--dry-run", "--target", "init"]);
    run.succeeds().stdout_contains("AS init\n").stdout_lacks("AS sandbox\n").stderr("");
    let tag = format!("as-test-json:{}", std::process::id());
    let run = docker.sandbox([
        "image",
        "build",
        "--json",
        "--base",
        docker.busybox(),
        "--packages",
        "",
        "--tag",
        &tag,
    ]);
    let said: serde_json::Value = serde_json::from_str(&run.succeeds().output()).unwrap();
    assert_eq!((&said["image"], &said["target"]), (&tag.clone().into(), &"sandbox".into()));
    docker
        .run(["image", "inspect", "--format", "{{.Id}}", &tag])
        .stdout(&format!("{}\n", said["id"].as_str().unwrap()));
}
