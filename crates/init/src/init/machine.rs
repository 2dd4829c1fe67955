//! PID 1 of a whole machine: nobody has mounted anything, and nobody turns it off.

use std::fs;
use std::path::Path;

use rustix::mount::{MountFlags, mount};
use rustix::system::RebootCommand;

/// The number that the kernel gives to its first PID namespace: `include/linux/proc_ns.h`.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Source and type are the same word. Parents come first.
const MOUNTS: [(&str, &str, &str); 7] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", "mode=0755"),
    ("devpts", "/dev/pts", "ptmxmode=0666,mode=620"),
    ("tmpfs", "/dev/shm", "mode=1777"),
    ("tmpfs", "/run", "mode=0755"),
    ("cgroup2", "/sys/fs/cgroup", ""),
];

/// Mounts what is missing, if this is the first process of a machine; whether it is.
pub(crate) fn prepare() -> bool {
    if sandbox_linux::process::pid() != 1 {
        return false;
    }
    if !Path::new("/proc/self").is_dir() {
        let _ = fs::create_dir("/proc");
        let _ = mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV, None);
    }
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace != Path::new(FIRST_NAMESPACE) {
        return false;
    }
    for (kind, at, options) in MOUNTS {
        if !is_mounted(at) {
            let _ = fs::create_dir_all(at);
            let options = std::ffi::CString::new(options).unwrap_or_default();
            if let Err(error) = mount(kind, at, kind, MountFlags::NOSUID, Some(options.as_c_str()))
            {
                super::LOG.warn(format_args!("cannot mount {kind} on {at}: {error}"));
            }
        }
    }
    true
}

fn is_mounted(at: &str) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().any(|line| line.split(' ').nth(4) == Some(at))
}

/// Writes everything out and turns the machine off. Returns only where that is not allowed.
pub(crate) fn power_off(code: u8) {
    super::LOG.say(format_args!("the end, with code {code}: turns the machine off"));
    rustix::fs::sync();
    let _ = rustix::system::reboot(RebootCommand::PowerOff);
}
