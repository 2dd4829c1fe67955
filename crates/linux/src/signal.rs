//! Signals as data: blocked, then read from a descriptor.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The signals that ask a sandbox to end.
pub const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The signals by which a terminal, or a program that speaks for it, stops a whole group.
const STOPPING: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// The highest signal number of Linux.
const LAST: i32 = 64;

/// The signals that a stand-in passes on to its command: those that other processes and terminals send. Not those that
/// the kernel sends for a fault of the process itself, nor those that stop it for touching a terminal.
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

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// Whether the kernel sent it, as it does for a key typed on the terminal: then every
    /// process of the foreground group has got it already.
    pub from_terminal: bool,
}

/// A descriptor on which blocked signals arrive.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks the ending and the stopping signals and `SIGCHLD`, and opens the descriptor.
    /// Children inherit the mask; [`unblock`] takes it back.
    pub fn open() -> io::Result<Self> {
        Self::of(blocked())
    }

    /// Blocks these signals, and opens the descriptor. [`reset_for_exec`] takes the mask back.
    pub fn of(signals: impl IntoIterator<Item = i32>) -> io::Result<Self> {
        let set = set(signals.into_iter());
        change_mask(libc::SIG_BLOCK, &set)?;
        // SAFETY: `set` is an initialised signal set; -1 asks for a new descriptor.
        let fd =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and belongs to nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal, if one is waiting.
    pub fn next(&self) -> io::Result<Option<Arrived>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = mem::size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is as large as the length given.
        let read = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if read < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
        // SAFETY: zeroed memory is a valid value of this plain struct, and the kernel filled it.
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

/// Lets everything through again that [`Signals::open`] blocked.
pub fn unblock() -> io::Result<()> {
    change_mask(libc::SIG_UNBLOCK, &set(blocked()))
}

/// Lets the stopping signals through again.
pub fn unblock_stopping() -> io::Result<()> {
    change_mask(libc::SIG_UNBLOCK, &set(STOPPING.into_iter()))
}

/// Lets the stopping signals that have come meanwhile through, and blocks them again once this
/// process has been continued.
pub(crate) fn let_stop() -> io::Result<()> {
    unblock_stopping()?;
    change_mask(libc::SIG_BLOCK, &set(STOPPING.into_iter()))
}

/// Whether a signal stops a process that does not expect it.
pub fn is_stopping(signal: i32) -> bool {
    STOPPING.contains(&signal)
}

/// Blocks nothing and ignores nothing: what is blocked or ignored outlives `exec`. Rust's start-up
/// ignores a broken pipe, the caller may have been started by `nohup`, and [`Signals`] block.
pub fn reset_for_exec() -> io::Result<()> {
    // SAFETY: the default action runs no code of ours.
    if unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    reset()
}

/// True when this program was started with a broken pipe ignored.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Reads that before Rust's start-up, which ignores a broken pipe in any case:
/// <https://github.com/rust-lang/rust/issues/62569>.
extern "C" fn note_pipe() {
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null pointer changes nothing, and the kernel's answer fits what `found` points to.
    unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), found.as_mut_ptr()) };
    // SAFETY: all zeros are a valid value, which the call may have overwritten.
    let found = unsafe { found.assume_init() };
    PIPE_IGNORED.store(found.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

/// The C library calls what this section lists before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_PIPE: extern "C" fn() = note_pipe;

/// Gives a broken pipe the action that it had when this program was started, for a command that takes its place.
pub fn restore_pipe() -> io::Result<()> {
    if PIPE_IGNORED.load(Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the default action runs no code of ours.
    match unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Lets this process hear of the end of its children: a caller that ignores `SIGCHLD` passes that on, and
/// the kernel then keeps no exit status (wait(2)).
pub fn reset_sigchld() {
    // SAFETY: the default action runs no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Gives every signal its default action and blocks none, for a process that outlives its caller: what
/// the caller ignores or blocks, such as `nohup` does, is not for the programs that are started later.
/// A broken pipe stays ignored, as Rust's start-up made it.
pub fn reset() -> io::Result<()> {
    for number in (1..=libc::SIGRTMAX()).filter(|number| *number != libc::SIGPIPE) {
        // SAFETY: the default action runs no code of ours. KILL, STOP and those of the C library are
        // refused, and keep the action that they have.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    RESERVED.for_each(no_longer_ignore);
    change_mask(libc::SIG_SETMASK, &set(std::iter::empty()))
}

/// Signals that C libraries keep for themselves: they refuse `signal` for them, and `posix_spawn` starts programs with them ignored.
const RESERVED: std::ops::RangeInclusive<i32> = 32..=34;

/// Gives a reserved signal its default action where the caller left it ignored; a handler stays.
fn no_longer_ignore(number: i32) {
    /// Size of the kernel's signal set in bytes, which `rt_sigaction(2)` asks for.
    const SET_SIZE: usize = 8;
    // The kernel's structure: the handler first; all zeros are the default action.
    let (mut found, default) = ([0_usize; 4], [0_usize; 4]);
    let nothing: *const usize = std::ptr::null();
    // SAFETY: the kernel writes one structure, which is not larger than the array.
    let asked = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, number, nothing, found.as_mut_ptr(), SET_SIZE)
    };
    if asked == 0 && found[0] == libc::SIG_IGN {
        // SAFETY: the kernel reads one structure, which is not larger than the array; the default action runs no code.
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
    // SAFETY: `set` is initialised; a null pointer says that the old mask is not wanted.
    match unsafe { libc::sigprocmask(how, set, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether a signal says that the terminal is gone.
pub fn is_hangup(signal: i32) -> bool {
    signal == libc::SIGHUP
}
