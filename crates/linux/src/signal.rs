//! Signals that are blocked and read from a descriptor: signalfd(2).

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that ask a sandbox to end.
pub const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Signals by which a terminal, or a program in its place, stops a process group.
const STOPPING: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Highest signal number of Linux.
const LAST: i32 = 64;

/// Returns the signals that a wrapper process passes on to its command: those that other processes and terminals send.
/// Excludes those that the kernel sends for a fault of the process itself, and those for background terminal access:
/// signal(7).
pub fn passed_on() -> impl Iterator<Item = i32> {
    let more = [
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
        libc::SIGWINCH,
        libc::SIGCONT,
        libc::SIGTSTP,
    ];
    ENDING.into_iter().chain(more).chain(libc::SIGRTMIN()..=LAST)
}

/// Stops this process until it is continued.
pub fn stop() -> io::Result<()> {
    Ok(rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?)
}

/// `SIGTERM`.
pub const TERM: i32 = libc::SIGTERM;
/// `SIGCHLD`.
pub const CHILD: i32 = libc::SIGCHLD;
/// `SIGKILL`.
pub const KILL: i32 = libc::SIGKILL;
/// `SIGHUP`.
pub const HUP: i32 = libc::SIGHUP;
/// `SIGCONT`.
pub const CONT: i32 = libc::SIGCONT;
/// `SIGWINCH`.
pub const WINCH: i32 = libc::SIGWINCH;

/// Received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Number of the signal.
    pub signal: i32,
    /// True if the kernel sent it (`SI_KERNEL`, sigaction(2)), as for a key typed on the terminal. Then every process
    /// of the foreground group has received it.
    pub from_terminal: bool,
}

/// Descriptor on which blocked signals arrive.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks `SIGCHLD` and the ending and stopping signals, and opens the descriptor. Children inherit the mask;
    /// [`unblock`] reverts it.
    pub fn open() -> io::Result<Self> {
        Self::of(blocked())
    }

    /// Blocks these signals and opens the descriptor. [`reset_for_exec`] reverts the mask.
    pub fn of(signals: impl IntoIterator<Item = i32>) -> io::Result<Self> {
        let set = set(signals.into_iter());
        change_mask(libc::SIG_BLOCK, &set)?;
        // SAFETY: `set` is an initialised signal set; -1 asks for a new descriptor.
        let fd =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was opened above, and no object owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Returns the next pending signal, if any.
    pub fn next(&self) -> io::Result<Option<Arrived>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = mem::size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is as large as the length given.
        let read = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if read < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
        // SAFETY: zeroed memory is a valid value of this plain struct.
        let info = unsafe { info.assume_init() };
        let signal = i32::try_from(info.ssi_signo).unwrap_or(0);
        Ok(Some(Arrived { signal, from_terminal: info.ssi_code == libc::SI_KERNEL }))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn blocked() -> impl Iterator<Item = i32> {
    ENDING.into_iter().chain(STOPPING).chain([libc::SIGCHLD])
}

/// Unblocks every signal that [`Signals::open`] blocked.
pub fn unblock() -> io::Result<()> {
    change_mask(libc::SIG_UNBLOCK, &set(blocked()))
}

/// Unblocks the stopping signals.
pub fn unblock_stopping() -> io::Result<()> {
    change_mask(libc::SIG_UNBLOCK, &set(STOPPING.into_iter()))
}

/// Delivers pending stopping signals, and blocks them again once this process has been continued.
pub(crate) fn let_stop() -> io::Result<()> {
    unblock_stopping()?;
    change_mask(libc::SIG_BLOCK, &set(STOPPING.into_iter()))
}

/// Returns true if the default action of a signal stops the process.
pub fn is_stopping(signal: i32) -> bool {
    STOPPING.contains(&signal)
}

/// Unblocks every signal and resets every action, because blocked and ignored signals stay so across exec. Rust's
/// runtime ignores `SIGPIPE`, the caller may have been started by `nohup`, and [`Signals`] blocks signals.
pub fn reset_for_exec() -> io::Result<()> {
    // SAFETY: the default action runs no code of this process.
    if unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    reset()
}

/// True if this program was started with `SIGPIPE` ignored.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Records the action of `SIGPIPE` before Rust's runtime sets it to ignored:
/// <https://github.com/rust-lang/rust/issues/62569>.
extern "C" fn note_pipe() {
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null pointer changes nothing, and `found` points to a structure for the result.
    unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), found.as_mut_ptr()) };
    // SAFETY: zeroed memory is a valid value, which the call may have overwritten.
    let found = unsafe { found.assume_init() };
    PIPE_IGNORED.store(found.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

/// Entry of a section whose functions the C library calls before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_PIPE: extern "C" fn() = note_pipe;

/// Restores the action that `SIGPIPE` had when this program was started, for a command that replaces it.
pub fn restore_pipe() -> io::Result<()> {
    if PIPE_IGNORED.load(Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the default action runs no code of this process.
    match unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Resets `SIGCHLD`, which a caller may have left ignored. The kernel would keep no exit status of children then:
/// wait(2).
pub fn reset_sigchld() {
    // SAFETY: the default action runs no code of this process.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Resets and unblocks every signal, for a process that outlives its caller. Signals that the caller ignores, as
/// `nohup` does, must not stay ignored in programs started later. `SIGPIPE` stays ignored, as Rust's runtime set it.
pub fn reset() -> io::Result<()> {
    for number in (1..=libc::SIGRTMAX()).filter(|number| *number != libc::SIGPIPE) {
        // SAFETY: the default action runs no code of this process. `SIGKILL`, `SIGSTOP` and signals reserved by
        // the C library are refused and keep their action.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    RESERVED.for_each(no_longer_ignore);
    change_mask(libc::SIG_SETMASK, &set(std::iter::empty()))
}

/// Signals that C libraries reserve. They refuse `signal` for them, and `posix_spawn` starts programs with them
/// ignored.
const RESERVED: std::ops::RangeInclusive<i32> = 32..=34;

/// Resets a reserved signal that the caller left ignored. A handler stays.
fn no_longer_ignore(number: i32) {
    /// Size of the kernel's signal set in bytes, an argument of `rt_sigaction(2)`.
    const SET_SIZE: usize = 8;
    // The kernel's structure starts with the handler. All zeros mean the default action.
    let (mut found, default) = ([0_usize; 4], [0_usize; 4]);
    let nothing: *const usize = std::ptr::null();
    // SAFETY: the kernel writes one structure, which is not larger than the array.
    let asked = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, number, nothing, found.as_mut_ptr(), SET_SIZE)
    };
    if asked == 0 && found[0] == libc::SIG_IGN {
        // SAFETY: the kernel reads one structure, which is not larger than the array. The default action runs no code.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, number, default.as_ptr(), nothing, SET_SIZE)
        };
    }
}

fn set(signals: impl Iterator<Item = i32>) -> libc::sigset_t {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: the pointer is valid, and the call initialises what it points to.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: the set was initialised above.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    // SAFETY: initialised by `sigemptyset`.
    unsafe { set.assume_init() }
}

fn change_mask(how: i32, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is initialised; a null pointer discards the old mask.
    match unsafe { libc::sigprocmask(how, set, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns true if a signal means that the terminal is gone.
pub fn is_hangup(signal: i32) -> bool {
    signal == libc::SIGHUP
}
