//! Pseudo terminals for programs, and raw mode for the user's terminal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

const FLAGS: OpenptFlags = OpenptFlags::RDWR.union(OpenptFlags::NOCTTY).union(OpenptFlags::CLOEXEC);
/// Magic number of devpts in `statfs(2)`.
const DEVPTS: rustix::fs::FsWord = 0x1cd1;

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of lines.
    pub rows: u16,
    /// Number of columns.
    pub columns: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// Creates a terminal and returns both ends: the controlling one and the program's.
pub fn open(size: Size) -> io::Result<(OwnedFd, OwnedFd)> {
    let ours = openpt(FLAGS)?;
    grantpt(&ours)?;
    pair(ours, size)
}

/// Creates a terminal in another devpts instance, where it is visible by name. The directory may come from an untrusted
/// process, so any other file system is refused.
pub fn open_in(dir: BorrowedFd<'_>, size: Size) -> io::Result<(OwnedFd, OwnedFd)> {
    if rustix::fs::fstatfs(dir)?.f_type != DEVPTS {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a devpts directory"));
    }
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    pair(rustix::fs::openat(dir, "ptmx", flags, Mode::empty())?, size)
}

/// Opens the devpts directory of this process's root.
pub fn devpts() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open("/dev/pts", flags, Mode::empty())?)
}

fn pair(ours: OwnedFd, size: Size) -> io::Result<(OwnedFd, OwnedFd)> {
    unlockpt(&ours)?;
    let theirs = ioctl_tiocgptpeer(&ours, FLAGS)?;
    resize(ours.as_fd(), size)?;
    Ok((ours, theirs))
}

/// Changes the size. The kernel sends `SIGWINCH` to the foreground process group: TIOCSWINSZ(2const).
pub fn resize(terminal: BorrowedFd<'_>, size: Size) -> io::Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

/// Returns the size; fails if the descriptor is not a terminal.
pub fn size(terminal: BorrowedFd<'_>) -> io::Result<Size> {
    let size = tcgetwinsize(terminal)?;
    Ok(Size { rows: size.ws_row, columns: size.ws_col })
}

/// Returns true if a descriptor is a terminal.
pub fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    rustix::termios::isatty(fd)
}

/// Makes a terminal the controlling terminal of the session that this process leads.
pub fn take_control(terminal: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::process::ioctl_tiocsctty(terminal)?)
}

/// Moves this process into a new process group and puts it in the foreground of its session's terminal. The stopping
/// signals must be blocked, or the kernel stops a background process that asks for the foreground: tcsetpgrp(3).
pub fn take_foreground(terminal: BorrowedFd<'_>) -> io::Result<()> {
    rustix::process::setpgid(None, None)?;
    Ok(rustix::termios::tcsetpgrp(terminal, rustix::process::getpid())?)
}

/// User's terminal in raw mode, restored on drop.
#[derive(Debug)]
pub struct Raw<'t> {
    terminal: BorrowedFd<'t>,
    before: Termios,
}

impl<'t> Raw<'t> {
    /// Switches the terminal to raw mode.
    pub fn begin(terminal: BorrowedFd<'t>) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(terminal, OptionalActions::Drain, &raw)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        // `drop` cannot report an error, and the terminal may be gone.
        let _ = tcsetattr(self.terminal, OptionalActions::Drain, &self.before);
    }
}
