//! Container engines that exist for one task: data, sockets, mounts and networks go with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::command::{as_root, quietly, run, succeeds, temporary};
use crate::made::{Record, Thing};
use crate::say::{Context, Failure, Outcome, say};
use crate::workspace::Workspace;

/// Docker daemon of root.
#[derive(Debug)]
pub(crate) struct Docker {
    folder: PathBuf,
    record: Record,
    job: Child,
}

impl Docker {
    /// Starts a daemon. Its one network leads to this machine and no further, in a range reserved for benchmarks
    /// (RFC 2544). The process id selects the network, so that several tasks can run at once.
    pub(crate) fn start(workspace: &Workspace) -> Result<Self, Failure> {
        let folder = temporary("/var/tmp/as-docker.XXXXXX")?;
        let number = std::process::id();
        let record = workspace.made.record(&Thing::Docker(folder.clone(), number))?;
        // Users of the engine's group reach its socket.
        run(Command::new("chmod").arg("711").arg(&folder))?;
        let network = format!("198.{}.{}", 18 + number / 256 % 2, number % 256);
        let log = folder.join("log");
        let file = fs::File::create(&log).context(format_args!("create {}", log.display()))?;
        let errors = file.try_clone().context("share the daemon's log")?;
        let mut daemon = daemon(&folder, number, &network);
        let mut job = daemon
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .context("start dockerd")?;
        if !wait(&mut job, || succeeds(ask(&folder).arg("version"))) {
            tail(&log);
            return Err(Failure::new("the Docker daemon does not start").hint("its log is above"));
        }
        let mut create = ask(&folder);
        create.args([
            "network",
            "create",
            "--subnet",
            &format!("{network}.0/24"),
            "--gateway",
            &format!("{network}.1"),
        ]);
        create
            .arg("--opt")
            .arg(format!("com.docker.network.bridge.name=as-test{number}"))
            .arg("as-test");
        quietly(&mut create)?;
        Ok(Self { folder, record, job })
    }

    pub(crate) fn address(&self) -> String {
        format!("unix://{}/socket", self.folder.display())
    }

    pub(crate) fn stop(mut self) -> Outcome {
        self.record.undo()?;
        self.job.wait().context("wait for dockerd").map(drop)
    }
}

/// Returns the command of a daemon that shares nothing with other engines here. It ends with this process, also when that
/// is killed, and has a session of its own, so that it does not get the keys of our terminal.
fn daemon(folder: &Path, number: u32, network: &str) -> Command {
    let mut daemon = as_root("setpriv");
    daemon.args([
        "--pdeathsig",
        "TERM",
        "setsid",
        "dockerd",
        "--bridge",
        "none",
        "--iptables=false",
        "--ip-forward=false",
    ]);
    daemon.args(["--shutdown-timeout", "5", "--host-gateway-ip", &format!("{network}.1")]);
    daemon.args(["--containerd-namespace", &format!("as-test-{number}")]);
    daemon.args(["--containerd-plugins-namespace", &format!("as-test-plugins-{number}")]);
    daemon.args(["--host", &format!("unix://{}/socket", folder.display())]);
    daemon.arg("--pidfile").arg(folder.join("pid")).arg("--data-root").arg(folder.join("data"));
    daemon.arg("--exec-root").arg(folder.join("exec"));
    daemon
}

fn ask(folder: &Path) -> Command {
    let mut docker = as_root("env");
    docker.arg(format!("DOCKER_HOST=unix://{}/socket", folder.display())).arg("docker");
    docker
}

/// Waits up to a minute for an engine that answers.
fn wait(job: &mut Child, answers: impl Fn() -> bool) -> bool {
    for _ in 0..300 {
        if answers() {
            return true;
        }
        if !matches!(job.try_wait(), Ok(None)) {
            return false;
        }
        sleep(Duration::from_millis(200));
    }
    false
}

fn tail(log: &Path) {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    say(lines[lines.len().saturating_sub(10)..].join("\n"));
}

/// Ends a daemon and removes its directory, its network and its mounts.
pub(crate) fn remove(folder: &Path, number: u32) -> Outcome {
    end_daemon(folder)?;
    // The daemon is not asked to remove its network, which containers of failed tests may still use.
    succeeds(as_root("busybox").args(["ip", "link", "delete", &format!("as-test{number}")]));
    // The daemon leaves the network namespaces of containers mounted.
    unmount_below(folder)?;
    run(as_root("rm").arg("-rf").arg(folder))
}

/// Ends a daemon, its containerd and its shims, all of which name the directory in their arguments.
fn end_daemon(folder: &Path) -> Outcome {
    // The brackets keep the pattern from matching the sudo that has it as an argument.
    let all = folder.display().to_string().replace("as-docker", "[a]s-docker");
    succeeds(as_root("pkill").args(["--full", &format!("dockerd .*unix://{all}/socket")]));
    for _ in 0..300 {
        if !succeeds(Command::new("pgrep").args(["--full", &all])) {
            return Ok(());
        }
        sleep(Duration::from_millis(200));
    }
    run(as_root("pkill").args(["-KILL", "--full", &all]))
}

/// Unmounts everything below a directory, the deepest first.
fn unmount_below(folder: &Path) -> Outcome {
    let mounts = fs::read_to_string("/proc/mounts").context("read /proc/mounts")?;
    let mut below: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|target| Path::new(target).starts_with(folder))
        .collect();
    below.sort_unstable();
    for target in below.iter().rev() {
        run(as_root("umount").arg(target))?;
    }
    Ok(())
}

/// Container engine in a process group of its own, which ends as a whole.
#[derive(Debug)]
pub(crate) struct Engine {
    record: Record,
    job: Child,
}

impl Engine {
    /// Starts an engine, from a directory that every user may enter, and waits until it answers at `run/socket`.
    pub(crate) fn start(
        workspace: &Workspace,
        name: &str,
        folder: &Path,
        mut engine: Command,
    ) -> Result<Self, Failure> {
        use std::os::unix::process::CommandExt;
        let log = workspace.made.scratch("engine");
        let file = fs::File::create(&log).context(format_args!("create {}", log.display()))?;
        let errors = file.try_clone().context("share the engine's log")?;
        engine
            .current_dir(folder)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors);
        let mut job = engine.spawn().context(format_args!("start {name}"))?;
        let record = workspace.made.record(&Thing::Engine(job.id(), folder.to_owned()))?;
        let address = format!("unix://{}/run/socket", folder.display());
        if !wait(&mut job, || {
            succeeds(Command::new("docker").arg("version").env("DOCKER_HOST", &address))
        }) {
            tail(&log);
            return Err(Failure::new(format!("{name} does not start")).hint("its log is above"));
        }
        Ok(Self { record, job })
    }

    pub(crate) fn stop(mut self) -> Outcome {
        let group = self.job.id().to_string();
        succeeds(Command::new("kill").args(["--", &format!("-{group}")]));
        self.job.wait().context("wait for the engine")?;
        self.record.undo()
    }
}

/// Ends the process group of an engine, and removes its mounts and its socket.
pub(crate) fn stop_group(group: u32, folder: &Path) -> Outcome {
    let group = format!("-{group}");
    for _ in 0..100 {
        if !succeeds(Command::new("kill").args(["--", &group])) {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    unmount_below(folder)?;
    match fs::remove_file(folder.join("run/socket")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context("remove the engine's socket")
        }
        _ => Ok(()),
    }
}
