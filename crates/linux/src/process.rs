//! Processes: ids, fork, exec, wait.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};

use crate::channel::{self, Awaited};
use crate::signal;
use crate::thread::SingleThreaded;

/// Returns the real user id.
pub fn uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Returns the real group id.
pub fn gid() -> u32 {
    rustix::process::getgid().as_raw()
}

/// Returns the real, effective and saved user ids.
pub fn user_ids() -> io::Result<[u32; 3]> {
    let mut ids = [0; 3];
    let [real, effective, saved] = &mut ids;
    // SAFETY: three valid pointers for the three ids.
    match unsafe { libc::getresuid(real, effective, saved) } {
        0 => Ok(ids),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the real, effective and saved group ids.
pub fn group_ids() -> io::Result<[u32; 3]> {
    let mut ids = [0; 3];
    let [real, effective, saved] = &mut ids;
    // SAFETY: three valid pointers for the three ids.
    match unsafe { libc::getresgid(real, effective, saved) } {
        0 => Ok(ids),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the pid of this process.
pub fn pid() -> i32 {
    rustix::process::getpid().as_raw_pid()
}

/// Child that this process must wait for.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
}

/// Change of state of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Exited with this code.
    Exited(i32),
    /// Killed by this signal.
    Killed(i32),
    /// Stopped by this signal, such as `SIGTSTP`.
    Stopped(i32),
}

impl Child {
    /// Handles the result of a call that forks. In the child, runs `body` and exits with its result.
    pub(crate) fn of(pid: i32, body: impl FnOnce() -> i32) -> io::Result<Self> {
        if pid == 0 {
            let code = body();
            // SAFETY: `_exit` never returns and runs no destructor of the parent's state.
            unsafe { libc::_exit(code) }
        }
        let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("fork returned no process"))?;
        Ok(Self { pid })
    }

    /// Returns the pid.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// Returns the last change of state, without waiting.
    pub fn poll(&self) -> io::Result<Option<Change>> {
        self.wait_with(WaitOptions::NOHANG | WaitOptions::UNTRACED)
    }

    /// Waits until the child has ended.
    pub fn wait(&self) -> io::Result<Change> {
        loop {
            match self.wait_with(WaitOptions::empty()) {
                Ok(Some(change)) => return Ok(change),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until the child has ended or stopped.
    pub fn wait_or_stop(&self) -> io::Result<Change> {
        loop {
            match self.wait_with(WaitOptions::UNTRACED) {
                Ok(Some(change)) => return Ok(change),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn wait_with(&self, options: WaitOptions) -> io::Result<Option<Change>> {
        let status = rustix::process::waitpid(Some(self.pid), options)?;
        Ok(status.and_then(|(_, status)| change(status)))
    }

    /// Kills the child with `SIGKILL`.
    pub fn kill(&self) -> io::Result<()> {
        Ok(rustix::process::kill_process(self.pid, Signal::KILL)?)
    }
}

pub(crate) fn change(status: WaitStatus) -> Option<Change> {
    if let Some(code) = status.exit_status() {
        return Some(Change::Exited(code));
    }
    if let Some(signal) = status.terminating_signal() {
        return Some(Change::Killed(signal));
    }
    status.stopping_signal().map(Change::Stopped)
}

/// Forks. The child runs `body` and exits with its result.
///
/// Fails if the process has other threads. The child allocates, which is only safe if no other thread can hold the
/// allocator's lock. Also, the parent-death signal of a child follows the thread that forked it: prctl(2).
pub fn fork(body: impl FnOnce() -> i32) -> io::Result<Child> {
    SingleThreaded::prove()?;
    // SAFETY: the process has one thread (checked above), so the child may run any code.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Child::of(pid, body),
    }
}

/// Makes the kernel kill this process when `parent` ends, and fails if it already has: `PR_SET_PDEATHSIG(2const)`.
pub fn die_with_parent(parent: i32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before the line above took effect.
    match rustix::process::getppid() {
        Some(pid) if pid.as_raw_pid() == parent => Ok(()),
        // No message, because this may run between fork and exec, where allocation is not allowed.
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// Prepares a program that starts with no signal blocked or ignored. With [`Command::new`] it would inherit both from
/// the caller and might miss a request to end.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    // SAFETY: between fork and exec the closure only makes system calls.
    unsafe { command.pre_exec(signal::reset_for_exec) };
    command
}

/// Makes the kernel kill a program when the thread that starts it ends for any reason: `PR_SET_PDEATHSIG(2const)`.
pub fn dies_with_caller(command: &mut Command) -> &mut Command {
    let parent = pid();
    // SAFETY: between fork and exec the closure only makes system calls.
    unsafe { command.pre_exec(move || die_with_parent(parent)) }
}

/// Sets `no_new_privs`, so that exec no longer grants privileges: prctl(2).
pub fn no_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Program with its arguments and environment, ready for `exec` after a fork.
#[derive(Debug)]
pub struct Program {
    argv: Vec<CString>,
    env: Vec<CString>,
}

impl Program {
    /// Copies arguments and environment; fails if one of them contains a NUL byte.
    pub fn new<'e>(
        argv: impl IntoIterator<Item = OsString>,
        env: impl IntoIterator<Item = (&'e OsString, &'e OsString)>,
    ) -> io::Result<Self> {
        let pair = |(name, value): (&OsString, &OsString)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        Ok(Self {
            argv: argv
                .into_iter()
                .map(|word| CString::new(word.into_vec()))
                .collect::<Result<_, _>>()?,
            env: env.into_iter().map(pair).collect::<Result<_, _>>()?,
        })
    }

    /// Creates a program from `NAME=VALUE` entries, which are passed on unchanged.
    pub fn with_entries<'e>(
        argv: impl IntoIterator<Item = OsString>,
        entries: impl IntoIterator<Item = &'e [u8]>,
    ) -> io::Result<Self> {
        Ok(Self {
            argv: argv
                .into_iter()
                .map(|word| CString::new(word.into_vec()))
                .collect::<Result<_, _>>()?,
            env: entries.into_iter().map(CString::new).collect::<Result<_, _>>()?,
        })
    }

    /// Replaces this process by the program in `file`. Returns only on failure.
    pub fn exec_file(&self, file: BorrowedFd<'_>) -> io::Error {
        let (argv, env) = (pointers(&self.argv), pointers(&self.env));
        // SAFETY: both arrays end with a null pointer and point into strings that `self` owns.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                file.as_raw_fd(),
                c"".as_ptr(),
                argv.as_ptr(),
                env.as_ptr(),
                libc::AT_EMPTY_PATH,
            )
        };
        io::Error::last_os_error()
    }

    /// Replaces this process by the program at `path`. Returns only on failure.
    pub fn exec_path(&self, path: &OsStr) -> io::Error {
        let Ok(path) = CString::new(path.as_bytes()) else {
            return io::Error::from(io::ErrorKind::InvalidInput);
        };
        let (argv, env) = (pointers(&self.argv), pointers(&self.env));
        // SAFETY: both arrays end with a null pointer and point into strings that `self` owns.
        unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
        io::Error::last_os_error()
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// Process handle (pidfd) that stays valid if the pid is reused.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// Opens a handle on a running process.
    pub fn open(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self(rustix::process::pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let signal = Signal::from_named_raw(signal)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(rustix::process::pidfd_send_signal(&self.0, signal)?)
    }

    /// Waits until the process has ended. PID 1 of a PID namespace ends after all other processes there.
    pub fn wait_for_end(&self) -> io::Result<()> {
        while !channel::wait(&[(self.0.as_fd(), Awaited::Data)], None)?.contains(&true) {}
        Ok(())
    }
}

impl From<OwnedFd> for ProcessHandle {
    /// Takes a pidfd that another process opened.
    fn from(handle: OwnedFd) -> Self {
        Self(handle)
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Stops this process with the signal that stopped another one, because a shell reports it. Returns once the process
/// has been continued.
pub fn stop_self(signal: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(signal).unwrap_or(Signal::STOP);
    // Sent while it is blocked, so that it merges with one that the terminal has already sent.
    rustix::process::kill_process(rustix::process::getpid(), signal)?;
    crate::signal::let_stop()
}

/// Returns true if this process is in the foreground of its terminal. Then a shell waits for it and can continue it.
pub fn is_foreground() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Stops every process of this process group, as ^Z does, until a shell continues it. The kernel does not stop an
/// orphaned process group this way: setpgid(2).
pub fn stop_group() -> io::Result<()> {
    Ok(rustix::process::kill_current_process_group(Signal::TSTP)?)
}

/// Sends `SIGCONT` to every process of this process group.
pub fn continue_group() -> io::Result<()> {
    Ok(rustix::process::kill_current_process_group(Signal::CONT)?)
}

/// Returns true if a process is stopped.
pub fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// Returns the parent of a process.
pub fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Returns the start time of a process in ticks since boot. It tells apart processes with the same pid.
pub fn start_of(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// Returns the session id of a process.
pub(crate) fn session_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(3)?.parse().ok()
}

/// Returns true if a process has ended or is ending. The kernel still lists a process that its parent has not waited
/// for (wait(2)), and one that is closing its files. Releasing an inotify descriptor takes milliseconds, and locks are
/// held until then.
pub fn has_ended(pid: i32) -> bool {
    /// `PF_EXITING` among the flags of `proc_pid_stat(5)`.
    const EXITING: u64 = 4;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let Some((_, rest)) = stat.rsplit_once(") ") else { return true };
    let flags = rest.split(' ').nth(6).and_then(|flags| flags.parse::<u64>().ok()).unwrap_or(0);
    rest.starts_with(['Z', 'X']) || flags & EXITING != 0
}

/// Starts a new session without a terminal: setsid(2).
pub fn lead_session() -> io::Result<()> {
    Ok(rustix::process::setsid().map(drop)?)
}

/// Sends a signal to a process group.
pub fn signal_group(leader: i32, signal: i32) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let leader = Pid::from_raw(leader).filter(|pid| pid.as_raw_pid() > 1).ok_or_else(invalid)?;
    let signal = Signal::from_named_raw(signal).ok_or_else(invalid)?;
    Ok(rustix::process::kill_process_group(leader, signal)?)
}

/// Sends a signal to a child that has not been waited for. The pid of any other process may have been reused.
pub fn signal_child(child: i32, signal: i32) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let child = Pid::from_raw(child).ok_or_else(invalid)?;
    let signal = Signal::from_named_raw(signal).ok_or_else(invalid)?;
    Ok(rustix::process::kill_process(child, signal)?)
}

/// Reaps any child that has ended and returns its pid and result.
pub fn any_end() -> io::Result<Option<(i32, Change)>> {
    match rustix::process::wait(WaitOptions::NOHANG) {
        Ok(Some((pid, status))) => Ok(change(status).map(|change| (pid.as_raw_pid(), change))),
        Ok(None) | Err(rustix::io::Errno::CHILD) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Resource usage of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// Number of processes.
    pub processes: u64,
    /// Resident memory in bytes. Shared memory counts once per process.
    pub memory: u64,
    /// CPU time in seconds.
    pub cpu: f64,
}

/// Returns the resource usage of all descendants of a process.
pub fn used_below(pid: i32) -> Used {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut all: Vec<(i32, i32)> =
        numbers.filter_map(|number| Some((number, parent_of(number)?))).collect();
    let (mut used, mut parents) = (Used::default(), vec![pid]);
    while let Some(parent) = parents.pop() {
        let (below, rest) = all.into_iter().partition(|(_, of)| *of == parent);
        all = rest;
        let below: Vec<(i32, i32)> = below;
        for (child, _) in below {
            parents.push(child);
            used.add(child);
        }
    }
    used
}

impl Used {
    fn add(&mut self, pid: i32) {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> =
            stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
        let number = |at: usize| fields.get(at).and_then(|text| text.parse::<u32>().ok());
        let (Some(user), Some(system), Some(pages)) = (number(11), number(12), number(21)) else {
            return;
        };
        self.processes += 1;
        self.memory += u64::from(pages) * rustix::param::page_size() as u64;
        let ticks = u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100);
        self.cpu += f64::from(user.saturating_add(system)) / f64::from(ticks);
    }
}
