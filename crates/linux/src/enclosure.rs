//! The namespaces around a command, and their first process.
//!
//! One clone(2) creates all namespaces. The first process builds the file system, drops all privileges, starts the
//! command and stays as PID 1 of the PID namespace. When it ends, the kernel kills every process that the command left
//! behind: `pid_namespaces(7)`.

use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{DumpableBehavior, Signal, WaitOptions};

use crate::capability::{self, CapabilitySet};
use crate::channel::{self, Awaited};
use crate::process::{self, Change, Child, ProcessHandle};
use crate::thread::SingleThreaded;

/// Namespaces of a process in addition to user, mount, IPC and UTS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enclosure {
    /// PID namespace.
    pub pids: bool,
    /// Network namespace with only a loopback device.
    pub network: bool,
}

/// Starts a process in new namespaces. The process runs `body` and exits with its result. In the new user namespace it
/// has every capability and no mapped ids: see [`Ids::map`].
///
/// Fails if the process has other threads, as [`process::fork`] does.
pub fn start(enclosure: Enclosure, body: impl FnOnce() -> i32) -> io::Result<Child> {
    let alone = SingleThreaded::prove()?;
    let always = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    let pids = if enclosure.pids { libc::CLONE_NEWPID } else { 0 };
    let network = if enclosure.network { libc::CLONE_NEWNET } else { 0 };
    let flags = always | pids | network;
    // An outer sandbox refuses cgroup namespaces and already has one: cgroup_namespaces(7).
    let pid = clone(&alone, flags | libc::CLONE_NEWCGROUP).or_else(|_| clone(&alone, flags))?;
    Child::of(pid, body)
}

/// Forks into new namespaces. Not with `clone3`, whose flags the seccomp filter of an outer sandbox cannot inspect.
fn clone(_alone: &SingleThreaded, flags: i32) -> io::Result<i32> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without `CLONE_VM` and without a stack this is a fork; the process has one thread
    // (proved by the first argument), so the child may run any code.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(i32::try_from(pid).unwrap_or(0)) }
}

/// User and group id to map in a child's user namespace, each as `(inside, outside)`.
#[derive(Debug, Clone, Copy)]
pub struct Ids {
    user: (u32, u32),
    group: (u32, u32),
}

impl Ids {
    /// Returns the ids of this process, mapped to themselves or to `seen`.
    pub fn own(seen: Option<u32>) -> Self {
        let (uid, gid) = (process::uid(), process::gid());
        Self { user: (seen.unwrap_or(uid), uid), group: (seen.unwrap_or(gid), gid) }
    }

    /// Writes the id maps of the calling process, with these ids as their only entries.
    pub fn map(&self) -> io::Result<()> {
        let line = |(inside, outside): (u32, u32)| format!("{inside} {outside} 1");
        // An unprivileged process may not write its group map without this: user_namespaces(7).
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", line(self.user))?;
        fs::write("/proc/self/gid_map", line(self.group))
    }
}

/// Makes the kernel kill this process when `parent` ends; fails if it has already ended. For a process in a new PID
/// namespace, in which its parent has no pid: `PR_SET_PDEATHSIG(2const)`.
pub fn die_with(parent: &ProcessHandle) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before the line above took effect.
    if channel::wait(&[(parent.as_fd(), Awaited::Data)], Some(0))?.contains(&true) {
        return Err(io::Error::other("the parent process has ended"));
    }
    Ok(())
}

/// Drops every capability and empties the bounding set.
pub fn drop_capabilities() -> io::Result<()> {
    capability::bound(CapabilitySet::empty())?;
    clear_capabilities()
}

/// Drops all capabilities of this process. With `no_new_privs` set, no later exec can regain them.
pub fn clear_capabilities() -> io::Result<()> {
    capability::reduce(CapabilitySet::empty())
}

/// Makes this process non-dumpable, which forbids ptrace(2) and access to its `/proc/PID` files. Otherwise the command
/// could read its memory, a copy of the parent's, and reopen its descriptors.
pub fn hide_memory() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Brings the loopback device of a new network namespace up. The kernel assigns its addresses: netdevice(7).
pub fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: a plain structure of numbers, for which zeroes are a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (at, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *at = libc::c_char::from_ne_bytes([*byte]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).unwrap_or(1);
    let (call, flags) = (libc::SYS_ioctl, libc::SIOCSIFFLAGS);
    // C libraries differ in the type of an ioctl request, so call the kernel directly.
    // SAFETY: the request takes a pointer to this structure, which outlives the call.
    let done = unsafe { libc::syscall(call, socket.as_raw_fd(), flags, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits for the command and reaps orphans, as PID 1 must. Calls `stopped` with the signal of each stop of the command.
/// Returns the exit code.
pub fn attend(command: &Child, mut stopped: impl FnMut(i32)) -> i32 {
    loop {
        let waited = rustix::process::wait(WaitOptions::UNTRACED);
        match waited {
            Ok(Some((pid, status))) if pid.as_raw_pid() == command.pid() => {
                match process::change(status) {
                    Some(Change::Exited(code)) => return code,
                    Some(Change::Killed(signal)) => return 128 + signal,
                    Some(Change::Stopped(signal)) => stopped(signal),
                    None => {}
                }
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // There are no children left, not even the command.
            Err(_) => return 125,
        }
    }
}
