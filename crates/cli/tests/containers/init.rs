//! The init as PID 1 of real containers: clone, change, kill, restart.

use testkit::{Container, Docker};

use crate::images;

/// Flags for FUSE and mounts in a container.
pub(crate) const MAY_MOUNT: [&str; 6] =
    ["--cap-add", "SYS_ADMIN", "--device", "/dev/fuse", "--security-opt", "apparmor=unconfined"];

/// Agent that writes a session file at its first start, and finds it at the second.
const AGENT: &str = r#"
cd ~/workspace || exit 1
if [ -e ~/.config/octobot/agent-session.json ]; then
    echo "again: $(cat ~/.config/octobot/agent-session.json) $(cat file) $(ls -A ~ | grep -c bashrc)"
else
    mkdir -p ~/.config/octobot
    echo '{"id":1}' > ~/.config/octobot/agent-session.json
    echo changed > file
    rm ~/.bashrc
    echo "first: $(id -un) $PWD $HOME ${SESSION_ID-no session}"
fi
exec sleep 1000
"#;

/// Creates a world with a repository whose files belong to root on purpose.
fn docker_with_repository() -> (Docker, String) {
    let docker = Docker::new();
    let world = docker.world().clone().file("origin/file", "original\n").git_init("origin");
    let mount = format!("{}:/origin:ro", world.path("origin").display());
    (docker, mount)
}

fn session(docker: &Docker, mount: &str, cow: &str) -> Container {
    let cow = format!("AGENT_COW={cow}");
    let flags = [
        "--volume",
        mount,
        "--env",
        "WORKSPACE_PATH=/origin",
        "--env",
        "SESSION_ID=s.1-x",
        "--env",
        &cow,
    ];
    let words = [images::init(docker), "sh", "-c", AGENT];
    docker.container(MAY_MOUNT.into_iter().chain(flags).chain(words))
}

/// The whole sequence, which must not depend on the engine.
#[track_caller]
fn changes_outlive_a_kill(cow: &str, mounted: &str) {
    let (docker, mount) = docker_with_repository();
    let container = session(&docker, &mount, cow);
    container.wait_for("first: octobot /home/octobot/workspace /home/octobot no session\n");
    container
        .exec(["-u", "0"], ["cat", "/home/octobot/.config/octobot/agent-session.json"])
        .succeeds()
        .stdout("{\"id\":1}\n");
    container.exec(["-u", "0"], ["grep", "-c", mounted, "/proc/mounts"]).succeeds().stdout("1\n");
    container.exec([], ["readlink", "/workspace"]).succeeds().stdout("/home/octobot/workspace\n");
    container.exec([], ["cat", "/workspace/file"]).succeeds().stdout("changed\n");
    container.exec([], ["cat", "/.data/octobot/workspace/file"]).succeeds().stdout("original\n");

    container.does(["kill"]).succeeds();
    assert_eq!(container.wait(), 137);
    container.does(["start"]).succeeds();
    container.wait_for("again: {\"id\":1} changed 0\n");
    container.exec([], ["cat", "/.data/octobot/workspace/file"]).succeeds().stdout("original\n");
    container.exec([], ["ls", "/.data/octobot/.bashrc"]).succeeds();
    assert_eq!(docker.world().read("origin/file"), "original\n");

    container.does(["stop", "--time", "100"]).succeeds();
    assert_eq!(container.wait(), 143, "the agent has no handler, and is not PID 1");
}

#[test]
fn changes_outlive_a_kill_in_a_database() {
    changes_outlive_a_kill("agentfs", "^.* /home/octobot fuse");
}

#[test]
fn changes_outlive_a_kill_in_an_overlay() {
    changes_outlive_a_kill("overlay", "^.* /home/octobot overlay");
}

#[test]
fn a_named_commit_is_checked_out() {
    let (docker, mount) = docker_with_repository();
    let git = docker.world().clone().cwd("origin");
    let first = git.host(["git", "rev-parse", "HEAD"]).succeeds().output();
    git.host(["git", "commit", "-q", "--allow-empty", "-m", "later"]).succeeds();
    let commit = format!("WORKSPACE_COMMIT={}", first.trim());
    let flags = [
        "--volume",
        &mount,
        "--env",
        "WORKSPACE_PATH=/origin",
        "--env",
        &commit,
        "--env",
        "SESSION_ID=s2",
    ];
    let words = [images::init(&docker), "git", "rev-parse", "HEAD"];
    docker.once(MAY_MOUNT.into_iter().chain(flags).chain(words)).succeeds().stdout(&first);
}

#[test]
fn without_the_right_to_mount_it_fails_with_the_step_and_a_hint() {
    let docker = Docker::new();
    let image = images::init(&docker);
    let run = docker.once(["--env", "SESSION_ID=s3", image, "true"]);
    run.code(1)
        .stderr_contains("[init] error: the layer's mount failed")
        .stderr_contains("[init] hint: ");
    docker
        .once(["--env", "SESSION_ID=s3", "--env", "AGENT_COW=none", image, "sh", "-c", "exit 7"])
        .code(7);
    docker.once([image, "true"]).code(1).stderr_contains("SESSION_ID");
}

/// Returns the capabilities of `--privileged` by name: the flag fails on a machine that lacks one of them.
const PRIVILEGED: [&str; 12] = [
    "--cap-add",
    "ALL",
    "--cap-drop",
    "SYS_RESOURCE",
    "--security-opt",
    "seccomp=unconfined",
    "--security-opt",
    "apparmor=unconfined",
    "--security-opt",
    "systempaths=unconfined",
    "--device-cgroup-rule",
    "a *:* rwm",
];

/// The only part of `--privileged` without a flag: delegated control groups.
const WITH_CGROUPS: &str = "for dir in /sys/fs/cgroup /sys/fs/cgroup/*; do mount -o remount,bind,rw $dir 2>/dev/null; done; exec init \"$@\"";

#[test]
fn a_docker_daemon_inside_runs_a_container_of_its_own() {
    let docker = Docker::new();
    let make = "mkdir -p root/bin && cp \"$0\" root/bin/busybox && tar -C root -cf busybox.tar .";
    let busybox = testkit::need("busybox");
    docker.world().host(["sh", "-ec", make, &busybox.to_string_lossy()]).succeeds();
    let mount = format!("{}:/busybox.tar:ro", docker.world().path("project/busybox.tar").display());
    let inner = "id -u && stat -c %a /var/run/docker.sock && docker import /busybox.tar inner >/dev/null && \
                 docker run --rm --network none inner /bin/busybox echo from inside; code=$?; \
                 [ $code = 0 ] || tail /.data/dockerd.log >&2; exit $code";
    let flags = [
        "--device",
        "/dev/fuse",
        "--volume",
        &mount,
        "--env",
        "SESSION_ID=s4",
        "--entrypoint",
        "sh",
    ];
    let words = [images::with_dockerd(&docker), "-c", WITH_CGROUPS, "sh", "sh", "-c", inner];
    let line = PRIVILEGED.into_iter().chain(flags).chain(words);
    docker.once(line).succeeds().stdout("1000\n666\nfrom inside\n");
}
