//! A user and a mount namespace like those of a sandbox, kept open by a process that waits in them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::World;
use crate::caller::need;
use crate::process::Process;

/// Namespaces with mounts, which exist until the value is dropped.
#[derive(Debug)]
pub struct Namespace {
    holder: Process,
    kinds: &'static [&'static str],
}

impl Namespace {
    /// Creates namespaces and runs this shell script in them. Ids are the same as outside, and the script can mount.
    /// `mount` is `busybox mount`, which uses no helper programs and no `/etc/fstab`.
    #[track_caller]
    pub fn new(world: &World, script: &str) -> Self {
        let holder = Self::start(world, &["--user", "--mount"], script);
        map_ids(holder.pid(), world.uid(), world.uid());
        holder.go()
    }

    /// Creates namespaces like [`Namespace::new`], in which commands have root's capabilities. An ordinary user is uid
    /// 0 there.
    #[track_caller]
    pub fn with_powers(world: &World, script: &str) -> Self {
        let holder = Self::start(world, &["--user", "--mount"], script);
        map_ids(holder.pid(), world.uid(), 0);
        holder.go()
    }

    /// Creates namespaces with the ids of outside, and with a network that has only loopback. The script sets its
    /// addresses with `ip`. Processes can listen on every port.
    #[track_caller]
    pub fn with_network(world: &World, script: &str) -> Self {
        let script = format!(
            "ip() {{ {} ip \"$@\"; }}\nip link set lo up
            echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start\n{script}",
            need("busybox").display()
        );
        let holder = Self::start(world, &["--user", "--mount", "--net"], &script);
        map_ids(holder.pid(), world.uid(), world.uid());
        holder.go()
    }

    /// Creates only a mount namespace. Requires root.
    #[track_caller]
    pub fn of_root(world: &World, script: &str) -> Self {
        Self::start(world, &["--mount"], script).go()
    }

    #[track_caller]
    fn start(world: &World, kinds: &'static [&'static str], script: &str) -> Self {
        let (unshare, busybox) = (need("unshare"), need("busybox"));
        let script = format!(
            "mount() {{ {} mount \"$@\"; }}\necho made; read go\nset -e\n{script}\necho ready; read end",
            busybox.display()
        );
        let words = kinds.iter().copied().chain(["--keep-caps", "sh", "-c", &script]);
        let line: Vec<&OsStr> =
            [unshare.as_os_str()].into_iter().chain(words.map(OsStr::new)).collect();
        let holder = world.start(line);
        holder.wait_for("made\n");
        Self { holder, kinds }
    }

    #[track_caller]
    fn go(mut self) -> Self {
        self.holder.send("go\n");
        self.holder.wait_for("ready\n");
        self
    }

    /// Returns the path by which this process reaches a path inside.
    pub fn path(&self, path: &Path) -> PathBuf {
        let inside = path.strip_prefix("/").unwrap_or(path);
        Path::new(&format!("/proc/{}/root", self.pid())).join(inside)
    }

    /// Returns the command prefix that runs a command inside.
    pub fn words(&self) -> Vec<OsString> {
        let pid = self.pid().to_string();
        let enter = need("nsenter").into_os_string();
        let kinds = ["--preserve-credentials"].into_iter().chain(self.kinds.iter().copied());
        let flags = kinds.chain(["--target", &pid, "--"]).map(OsString::from);
        [enter].into_iter().chain(flags).collect()
    }

    fn pid(&self) -> i32 {
        self.holder.pid().as_raw_nonzero().get()
    }
}

/// Maps ids like the sandbox does: root maps all users, others only themselves.
#[track_caller]
fn map_ids(pid: i32, uid: u32, seen: u32) {
    let own = rustix::process::getuid().as_raw();
    let gid = if uid == own { rustix::process::getgid().as_raw() } else { uid };
    let write = |file: &str, text: String| {
        let path = format!("/proc/{pid}/{file}");
        fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write `{path}`: {error}"));
    };
    if uid == 0 {
        write("uid_map", format!("0 0 {}", u32::MAX));
        write("gid_map", format!("0 0 {}", u32::MAX));
    } else {
        write("setgroups", "deny".into());
        write("uid_map", format!("{seen} {uid} 1"));
        write("gid_map", format!("{} {gid} 1", if seen == uid { gid } else { seen }));
    }
}
