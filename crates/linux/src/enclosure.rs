//! The namespaces around a command, and the process that stands first in them.
//!
//! One call makes them all. The process that it starts builds what the command will see, gives up
//! every privilege, starts the command and stays as the first of its PID namespace: with it goes
//! whatever the command left running.

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

/// Which namespaces a process gets beside those for users, mounts, IPC and the host's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enclosure {
    /// Process numbers.
    pub pids: bool,
    /// The network, with nothing but a loopback device.
    pub network: bool,
}

/// Starts a process in namespaces of its own; it runs `body` and ends with the code it returns.
/// In its user namespace it has every capability and nobody's id: see [`Ids::map`].
///
/// Fails if the process has other threads, as [`process::fork`] does.
pub fn start(enclosure: Enclosure, body: impl FnOnce() -> i32) -> io::Result<Child> {
    let alone = SingleThreaded::prove()?;
    let always = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    let pids = if enclosure.pids { libc::CLONE_NEWPID } else { 0 };
    let network = if enclosure.network { libc::CLONE_NEWNET } else { 0 };
    let flags = always | pids | network;
    // Inside another sandbox a cgroup namespace is refused; the outer one has its own already.
    let pid = clone(&alone, flags | libc::CLONE_NEWCGROUP).or_else(|_| clone(&alone, flags))?;
    Child::of(pid, body)
}

/// `fork` into new namespaces. Not `clone3`: the filter of an outer sandbox cannot look into it.
fn clone(_alone: &SingleThreaded, flags: i32) -> io::Result<i32> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without `CLONE_VM` and without a stack this is a fork; the process has one thread
    // (proved by the first argument), so the child may run any code.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(i32::try_from(pid).unwrap_or(0)) }
}

/// The ids of this process, to be mapped in a namespace of a child's.
#[derive(Debug, Clone, Copy)]
pub struct Ids {
    user: (u32, u32),
    group: (u32, u32),
}

impl Ids {
    /// Those of this process, seen inside as they are or as `seen`.
    pub fn own(seen: Option<u32>) -> Self {
        let (uid, gid) = (process::uid(), process::gid());
        Self { user: (seen.unwrap_or(uid), uid), group: (seen.unwrap_or(gid), gid) }
    }

    /// Maps them, in the child, as the only ones there are.
    pub fn map(&self) -> io::Result<()> {
        let line = |(inside, outside): (u32, u32)| format!("{inside} {outside} 1");
        // Without this an unprivileged process may not write its group map: user_namespaces(7).
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", line(self.user))?;
        fs::write("/proc/self/gid_map", line(self.group))
    }
}

/// Makes the kernel kill this process when `parent` ends, and fails if it already has. For a
/// process in a PID namespace of its own, which knows no number of its parent.
pub fn die_with(parent: &ProcessHandle) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before the line above took effect.
    if channel::wait(&[(parent.as_fd(), Awaited::Data)], Some(0))?.contains(&true) {
        return Err(io::Error::other("the parent process has ended"));
    }
    Ok(())
}

/// Gives up every capability, also those that a program could have brought.
pub fn drop_capabilities() -> io::Result<()> {
    capability::bound(CapabilitySet::empty())?;
    clear_capabilities()
}

/// Gives up the capabilities that a process was started with. None can come back where no program
/// gains privileges by being executed.
pub fn clear_capabilities() -> io::Result<()> {
    capability::reduce(CapabilitySet::empty())
}

/// Closes this process to everybody: a command may look at all others of its own user, read their
/// memory and open what they have open. This one has a copy of its parent's.
pub fn hide_memory() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Switches the loopback device of a new network namespace on; its addresses come by themselves.
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
    // The C libraries differ in the type of a request; the kernel has one.
    // SAFETY: the request takes a pointer to this structure, which outlives the call.
    let done = unsafe { libc::syscall(call, socket.as_raw_fd(), flags, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the first process does while the command runs: waits, for whoever has no parent left, too.
/// `stopped` hears of each stop of the command, by which signal. Returns the exit code.
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
            // Nobody is left, the command included.
            Err(_) => return 125,
        }
    }
}
