//! A small container without a container engine: a root directory, with a user, mount and PID namespace, in which the
//! binary under test is PID 1.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::{Process, Run, Signal, Terminal, User, World, need, user};

/// Search path inside.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt";

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh
agent:x:1000:1000::/home/agent:/bin/bash
octobot:x:1001:1001::/home/octobot:/bin/sh
broken:x:one:1::/:/bin/sh
";

/// User that starts PID 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Root in a user namespace with all users mapped. Only root can create one.
    Root,
    /// Root in a user namespace with only uid 0 mapped.
    LonelyRoot,
    /// This uid. If the test runs as root, all users are mapped, otherwise only this one.
    As(u32),
}

/// A root directory that is removed with the test, and the settings of the next process in it.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    world: World,
    start: Start,
    env: Vec<(OsString, OsString)>,
    before: Vec<OsString>,
    mounts: String,
}

impl Room {
    pub(crate) fn new(start: Start) -> Self {
        let world = World::with_binary(built("agent-sandbox-init"));
        let room =
            Self { world, start, env: Vec::new(), before: Vec::new(), mounts: String::new() };
        for dir in [
            "etc",
            "proc",
            "dev",
            "tmp",
            "usr",
            "root",
            "opt",
            "run",
            "workspace",
            "home/agent",
            "home/octobot",
            ".data",
        ] {
            fs::create_dir_all(room.path(dir)).unwrap();
        }
        for (dir, mode) in [("", 0o755), ("tmp", 0o777), ("root", 0o700)] {
            room.mode(dir, mode);
        }
        for link in ["bin", "sbin", "lib", "lib64"] {
            std::os::unix::fs::symlink(format!("usr/{link}"), room.path(link)).unwrap();
        }
        room.write("etc/passwd", PASSWD);
        room.write("opt/agent-sandbox-init", "");
        for link in ["entrypoint", "init", "obot-agent"] {
            std::os::unix::fs::symlink("agent-sandbox-init", room.path("opt").join(link)).unwrap();
        }
        if user() == User::Root {
            for (dir, id) in [("home/agent", 1000), ("workspace", 1000), ("home/octobot", 1001)] {
                chown(room.path(dir), Some(id), Some(id)).unwrap();
            }
        }
        room.env("PATH", PATH)
    }

    /// Returns the path of a file inside, for this process.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.world.path("root").join(path)
    }

    pub(crate) fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn mode(&self, path: impl AsRef<Path>, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Writes a program: see `World::exec_file`.
    pub(crate) fn program(&self, path: &str, text: &str) {
        let _ = self.world.clone().exec_file(Path::new("root").join(path), text);
    }

    /// Sets a variable of PID 1.
    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        self
    }

    /// Sets a command that runs before the binary and executes it.
    pub(crate) fn before(mut self, words: &[&str]) -> Self {
        self.before = words.iter().map(OsString::from).collect();
        self
    }

    /// Adds shell commands that run before the root directory is entered. `$root` is its path.
    pub(crate) fn mounts(mut self, lines: &str) -> Self {
        self.mounts.push_str(lines);
        self.mounts.push('\n');
        self
    }

    /// Changes the owner of a tree if the test runs as root. Otherwise the owner is already right.
    pub(crate) fn give(&self, path: &str, uid: u32) {
        if user() == User::Root {
            let owner = format!("{uid}:{uid}");
            let mut chown = Command::new(need("chown"));
            let done = chown.args(["-R", "-h", &owner]).arg(self.path(path)).status();
            assert!(done.unwrap().success());
        }
    }

    /// Runs a command line to its end.
    #[track_caller]
    pub(crate) fn run<S: AsRef<OsStr>>(&self, line: impl IntoIterator<Item = S>) -> Run {
        self.start(line).wait()
    }

    /// Starts a command line as PID 1.
    #[track_caller]
    pub(crate) fn start<S: AsRef<OsStr>>(&self, line: impl IntoIterator<Item = S>) -> Process {
        let gate = self.gate();
        let process = self.world.start(self.words(&gate, line));
        self.open(process.pid().as_raw_nonzero().get(), &gate);
        process
    }

    /// Starts a command line as PID 1, on a new terminal.
    #[track_caller]
    pub(crate) fn terminal<S: AsRef<OsStr>>(&self, line: impl IntoIterator<Item = S>) -> Terminal {
        let gate = self.gate();
        let terminal = self.world.host_terminal(self.words(&gate, line));
        self.open(terminal.pid().as_raw_nonzero().get(), &gate);
        terminal
    }

    /// Creates a FIFO on which the new process waits until its ids are mapped.
    fn gate(&self) -> PathBuf {
        let gate = self.world.path("gate");
        let _ = fs::remove_file(&gate);
        assert!(Command::new(need("mkfifo")).arg(&gate).status().unwrap().success());
        gate
    }

    fn words<S: AsRef<OsStr>>(
        &self,
        gate: &Path,
        line: impl IntoIterator<Item = S>,
    ) -> Vec<OsString> {
        let outer = format!(
            "read go < {}; exec {} --mount --pid --fork --kill-child sh -c \"$inner\" inner \"$@\"",
            gate.display(),
            need("unshare").display()
        );
        let inner = format!(
            "set -e; root={root}
            mount() {{ {busybox} mount \"$@\"; }}
            mount --bind $root $root
            for dir in usr dev; do mount --rbind /$dir $root/$dir; done
            mount --bind {binary} $root/opt/agent-sandbox-init
            mount -t proc proc $root/proc
            {mounts}
            exec {chroot} $root \"$@\"",
            root = self.path("").display(),
            busybox = need("busybox").display(),
            binary = self.world.binary().display(),
            mounts = self.mounts,
            chroot = need("chroot").display(),
        );
        let mut words: Vec<OsString> =
            vec![need("env").into(), "-i".into(), format!("PATH={PATH}").into()];
        words.push(OsString::from(format!("inner={inner}")));
        words.extend([need("unshare").into(), "--user".into()]);
        // Root gets its capabilities once uid 0 is mapped. Other users need this flag: unshare(1).
        words.extend((user() == User::Ordinary).then(|| "--keep-caps".into()));
        words.extend(["sh".into(), "-c".into(), outer.into(), "outer".into()]);
        words.extend(self.identity());
        words.extend(self.before.iter().cloned());
        words.extend(["/usr/bin/env", "-i"].map(OsString::from));
        for (name, value) in &self.env {
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            words.push(pair);
        }
        words.extend(line.into_iter().map(|word| word.as_ref().to_owned()));
        words
    }

    /// Returns a command prefix that gives up the capabilities that were needed to create the room.
    fn identity(&self) -> Vec<OsString> {
        let Start::As(uid) = self.start else { return Vec::new() };
        let ids = [format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".into()];
        let ids = ids.into_iter().filter(|_| user() == User::Root);
        let words = ["/usr/bin/setpriv", "--inh-caps=-all", "--ambient-caps=-all"];
        words.map(OsString::from).into_iter().chain(ids.map(OsString::from)).collect()
    }

    /// Maps ids once the process has created its user namespace, and lets it continue.
    #[track_caller]
    fn open(&self, pid: i32, gate: &Path) {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/user")).ok();
        let (own, deadline) = (namespace("self"), Instant::now() + Duration::from_secs(20));
        while namespace(&pid.to_string()).is_none_or(|now| Some(now) == own) {
            assert!(Instant::now() < deadline, "no user namespace");
            std::thread::sleep(Duration::from_millis(1));
        }
        let write =
            |file: &str, text: String| fs::write(format!("/proc/{pid}/{file}"), text).unwrap();
        let for_all = user() == User::Root && self.start != Start::LonelyRoot;
        let seen = match self.start {
            Start::As(uid) => uid,
            Start::Root | Start::LonelyRoot => 0,
        };
        let map = |id: u32| {
            if for_all { format!("0 0 {}", u32::MAX) } else { format!("{seen} {id} 1") }
        };
        if !for_all {
            write("setgroups", "deny".into());
        }
        write("uid_map", map(ids().0));
        write("gid_map", map(ids().1));
        // Opening without O_NONBLOCK would block if the reader has exited: fifo(7).
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
        while let Err(error) = rustix::fs::open(gate, flags, rustix::fs::Mode::empty())
            .and_then(|gate| rustix::io::write(gate, b"go\n"))
        {
            assert!(Instant::now() < deadline, "the process does not wait for its ids: {error}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Returns the process id of a room's PID 1, for this process.
#[track_caller]
pub(crate) fn pid_1(process: &Process) -> i32 {
    let outer = process.pid().as_raw_nonzero();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let children = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"));
        if let Ok(pid) = children.unwrap_or_default().trim().parse() {
            return pid;
        }
        assert!(Instant::now() < deadline, "nothing was started");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a signal to PID 1 of a room.
#[track_caller]
pub(crate) fn signal(process: &Process, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(pid_1(process)).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn ids() -> (u32, u32) {
    let id = |flag| {
        let said = Command::new(need("id")).arg(flag).output().unwrap().stdout;
        String::from_utf8(said).unwrap().trim().parse().unwrap()
    };
    (id("-u"), id("-g"))
}

/// Returns the path of a binary that cargo built beside this test.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let folder = test.parent().and_then(Path::parent).expect("this test lies in `deps`");
    let path = folder.join(name);
    assert!(
        path.is_file(),
        "`{}` is not built: use `./dev test`, or `cargo build --workspace`",
        path.display()
    );
    path
}
