//! Docker daemon for a single test, which can stop and restart it.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::caller::{SEARCH_PATH, need};
use crate::docker::Docker;

/// Longest wait for a daemon to start or stop.
const PATIENCE: Duration = Duration::from_secs(120);

/// Docker daemon with separate data, which is removed with the test.
#[derive(Debug)]
pub struct Daemon {
    dir: PathBuf,
    name: String,
    child: Option<Child>,
}

impl Daemon {
    /// Starts a daemon. Requires root.
    #[track_caller]
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("as-own-{}-{number}", std::process::id());
        let dir = Path::new("/var/tmp").join(&name);
        fs::create_dir_all(&dir).expect("cannot write to /var/tmp");
        let mut daemon = Self { dir, name, child: None };
        daemon.start();
        daemon
    }

    /// Starts the daemon and waits until it responds.
    #[track_caller]
    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.dir.join("log"));
        let log = log.expect("cannot write the log");
        let place = |name: &str| self.dir.join(name);
        let mut dockerd = Command::new(need("dockerd"));
        dockerd.arg("--host").arg(self.address()).arg("--pidfile").arg(place("pid"));
        dockerd.arg("--data-root").arg(place("data")).arg("--exec-root").arg(place("exec"));
        dockerd.args(["--bridge", "none", "--iptables=false", "--ip-forward=false"]);
        dockerd.args(["--containerd-namespace", &self.name, "--shutdown-timeout", "5"]);
        dockerd.args(["--containerd-plugins-namespace", &format!("{}-plugins", self.name)]);
        dockerd.env("PATH", SEARCH_PATH).process_group(0);
        dockerd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(dockerd.spawn().expect("cannot start `dockerd`"));
        let end = Instant::now() + PATIENCE;
        while !self.answers() {
            assert!(Instant::now() < end, "the daemon does not respond: {}", self.said());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Stops the daemon with a signal and waits for its exit. Containers are not stopped separately.
    #[track_caller]
    pub fn stop(&mut self, signal: Signal) {
        let Some(mut child) = self.child.take() else { return };
        let _ = kill_process(Pid::from_child(&child), signal);
        let end = Instant::now() + PATIENCE;
        while child.try_wait().is_ok_and(|ended| ended.is_none()) {
            assert!(Instant::now() < end, "the daemon does not stop: {}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
        self.wait_for_containerd(end);
    }

    /// Waits until containerd is gone. The next daemon would mistake an unreaped one for a running one.
    fn wait_for_containerd(&self, end: Instant) {
        let file = self.dir.join("exec/containerd/containerd.pid");
        let Ok(pid) = fs::read_to_string(&file) else { return };
        let stat = format!("/proc/{}/stat", pid.trim());
        let runs = || {
            let stat = fs::read_to_string(&stat).unwrap_or_default();
            stat.contains("(containerd)") && !stat.contains(") Z")
        };
        while runs() {
            assert!(Instant::now() < end, "containerd does not stop: {}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = fs::remove_file(file);
    }

    /// Returns a world whose commands use this daemon.
    pub fn docker(&self) -> Docker {
        Docker::at(&self.address())
    }

    fn address(&self) -> String {
        format!("unix://{}", self.dir.join("socket").display())
    }

    fn answers(&self) -> bool {
        let mut docker = Command::new(need("docker"));
        docker.args(["--host", &self.address(), "version"]);
        docker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        docker.status().is_ok_and(|status| status.success())
    }

    fn said(&self) -> String {
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Default for Daemon {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Daemon {
    /// Stops the daemon and unmounts the network namespaces that it leaves behind.
    fn drop(&mut self) {
        self.stop(Signal::TERM);
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own = self.dir.display().to_string();
        let below = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for mount in below.filter(|path| path.starts_with(&own)).rev() {
            let _ = Command::new("umount").arg(mount).status();
        }
        let removed = fs::remove_dir_all(&self.dir);
        assert!(std::thread::panicking() || removed.is_ok(), "{removed:?}");
    }
}
