//! A Docker daemon of one test's own, which may be ended and started again.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::caller::{SEARCH_PATH, need};
use crate::docker::Docker;

/// How long a daemon may take to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A daemon whose data lie in a directory of its own. Everything of it goes with the test.
#[derive(Debug)]
pub struct Daemon {
    dir: PathBuf,
    name: String,
    child: Option<Child>,
}

impl Daemon {
    /// Starts one. Only root can.
    #[track_caller]
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("as-own-{}-{number}", std::process::id());
        let dir = Path::new("/var/tmp").join(&name);
        fs::create_dir_all(&dir).expect("/var/tmp can be written to");
        let mut daemon = Self { dir, name, child: None };
        daemon.start();
        daemon
    }

    /// Starts it again, and waits until it answers.
    #[track_caller]
    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.dir.join("log"));
        let log = log.expect("its log can be written");
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
            assert!(Instant::now() < end, "the daemon does not answer: {}", self.said());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends it by a signal, and waits for its end. What runs in containers is left to the daemon.
    #[track_caller]
    pub fn stop(&mut self, signal: Signal) {
        let Some(mut child) = self.child.take() else { return };
        let _ = kill_process(Pid::from_child(&child), signal);
        let end = Instant::now() + PATIENCE;
        while child.try_wait().is_ok_and(|ended| ended.is_none()) {
            assert!(Instant::now() < end, "the daemon does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
        self.wait_for_containerd(end);
    }

    /// One that was killed with the daemon, and that nobody has buried yet, would be taken for alive by the next.
    fn wait_for_containerd(&self, end: Instant) {
        let file = self.dir.join("exec/containerd/containerd.pid");
        let Ok(pid) = fs::read_to_string(&file) else { return };
        let stat = format!("/proc/{}/stat", pid.trim());
        let runs = || {
            let stat = fs::read_to_string(&stat).unwrap_or_default();
            stat.contains("(containerd)") && !stat.contains(") Z")
        };
        while runs() {
            assert!(Instant::now() < end, "containerd does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = fs::remove_file(file);
    }

    /// A world whose commands reach it.
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
    /// The daemon leaves network namespaces of containers mounted.
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
