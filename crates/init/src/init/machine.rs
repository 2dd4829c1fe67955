//! PID 1 of a virtual machine, which mounts the kernel's file systems and powers the machine off.

use std::fs;
use std::path::Path;

use rustix::mount::{MountFlags, mount};
use rustix::system::RebootCommand;

/// Inode of the initial PID namespace, `PROC_PID_INIT_INO`: `include/linux/proc_ns.h`.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// File system type (also used as the source), mount point and options. Parents come first.
const MOUNTS: [(&str, &str, &str); 7] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", "mode=0755"),
    ("devpts", "/dev/pts", "ptmxmode=0666,mode=620"),
    ("tmpfs", "/dev/shm", "mode=1777"),
    ("tmpfs", "/run", "mode=0755"),
    ("cgroup2", "/sys/fs/cgroup", ""),
];

/// Mounts missing file systems if this is PID 1 of a machine. Returns whether it is.
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

/// Syncs the disks and powers the machine off. Returns only if that is not permitted.
pub(crate) fn power_off(code: u8) {
    super::LOG.say(format_args!("finished with code {code}; powering off"));
    rustix::fs::sync();
    let _ = rustix::system::reboot(RebootCommand::PowerOff);
}
