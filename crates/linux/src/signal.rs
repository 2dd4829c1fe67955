//! Signals as data: blocked, then read from a descriptor.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// The signals that ask a sandbox to end.
pub const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The signals by which a terminal, or a program that speaks for it, stops a whole group.
const STOPPING: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

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

    /// Blocks these signals, and opens the descriptor. [`as_a_program_expects`] takes the mask back.
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

/// Blocks nothing and lets a broken pipe end the process again, which Rust's start-up turned off:
/// both would otherwise outlive `exec`.
pub fn as_a_program_expects() -> io::Result<()> {
    // SAFETY: the default action runs no code of ours.
    if unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    change_mask(libc::SIG_SETMASK, &set(std::iter::empty()))
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
