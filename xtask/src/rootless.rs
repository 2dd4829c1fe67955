//! `test rootless`: sessions on engines that are not Docker as root, one after the other. Each keeps its data and its
//! socket in a directory that is removed.

use std::fs;
use std::process::Command;

use crate::command::run;
use crate::engine::Engine;
use crate::passes::Passes;
use crate::say::Outcome;
use crate::suites::Suites;
use crate::users::TestUser;
use crate::workspace::Workspace;

pub(crate) fn rootless(workspace: &Workspace, passes: &Passes<'_>, filters: &[&str]) -> Outcome {
    let suites = Suites::compile(workspace)?;
    let user = TestUser::create(workspace)?;
    let tests = user.install("rootless", &suites.get("rootless")?.executable)?;
    let (name, folder) = (&user.name, &user.folder);
    let known = fs::read_to_string("/etc/subuid").unwrap_or_default();
    if !known.lines().any(|line| line.split(':').next() == Some(name)) {
        let mut ids = Command::new("usermod");
        run(ids.args(["--add-subuids", "500000-565535", "--add-subgids", "500000-565535", name]))?;
    }
    let mut folders = Command::new("install");
    folders
        .args(["-d", "-m", "700", "-o", name, "-g", name])
        .args([folder.join("run"), folder.join("data")]);
    run(&mut folders)?;
    for (engine, start, as_root) in [
        ("rootless Docker", docker(&user), false),
        ("rootless Podman", podman(&user), false),
        ("Podman as root", podman_of_root(&user), true),
    ] {
        let engine_job = Engine::start(workspace, engine, folder, start)?;
        let mut command = if as_root { Command::new("env") } else { user.command() };
        command.arg(format!("DOCKER_HOST={}", socket(&user)));
        command.arg(format!("AGENT_SANDBOX_STATIC={}", folder.display()));
        command.arg(&tests).arg("--quiet").args(filters);
        passes.run(&format!("sessions on {engine}"), vec![command]);
        engine_job.stop()?;
    }
    Ok(())
}

fn socket(user: &TestUser) -> String {
    format!("unix://{}/run/socket", user.folder.display())
}

/// Returns `env` as the user, with what engines need. Docker's network is the host's, because not every machine lets an
/// ordinary user create one: it takes `/dev/net/tun`.
fn as_user(user: &TestUser) -> Command {
    let mut command = Command::new("runuser");
    command.args(["-u", &user.name, "--", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]);
    command.arg(format!("HOME={}/data", user.folder.display()));
    command.arg(format!("XDG_RUNTIME_DIR={}/run", user.folder.display()));
    command.args([
        "DOCKERD_ROOTLESS_ROOTLESSKIT_NET=host",
        "DOCKERD_ROOTLESS_ROOTLESSKIT_PORT_DRIVER=none",
    ]);
    command
}

fn docker(user: &TestUser) -> Command {
    let folder = &user.folder;
    let mut docker = as_user(user);
    docker.args(["/usr/share/docker.io/contrib/dockerd-rootless.sh", "--host", &socket(user)]);
    docker
        .arg("--data-root")
        .arg(folder.join("data/docker"))
        .arg("--exec-root")
        .arg(folder.join("run/exec"));
    docker.arg("--pidfile").arg(folder.join("run/pid"));
    docker.args(["--bridge", "none", "--iptables=false", "--ip-forward=false"]);
    docker
}

fn podman(user: &TestUser) -> Command {
    let mut podman = as_user(user);
    podman.args(["podman", "--runtime", "runc", "--root"]).arg(user.folder.join("data/podman"));
    podman.arg("--runroot").arg(user.folder.join("run/podman"));
    podman.args(["system", "service", "--time", "0", &socket(user)]);
    podman
}

fn podman_of_root(user: &TestUser) -> Command {
    let folder = &user.folder;
    let mut podman = Command::new("podman");
    podman.args(["--runtime", "runc", "--root"]).arg(folder.join("root"));
    podman.arg("--runroot").arg(folder.join("runroot")).arg("--tmpdir").arg(folder.join("tmp"));
    podman.args(["system", "service", "--time", "0", &socket(user)]);
    podman
}
