//! Terminals that a program is given instead of the user's own, and the user's own while keys go there.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

const FLAGS: OpenptFlags = OpenptFlags::RDWR.union(OpenptFlags::NOCTTY).union(OpenptFlags::CLOEXEC);
/// What `statfs` says of a `devpts`: statfs(2).
const DEVPTS: rustix::fs::FsWord = 0x1cd1;

/// How large a terminal is, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// Both ends of a new terminal: ours, and the program's.
pub fn open(size: Size) -> io::Result<(OwnedFd, OwnedFd)> {
    let ours = openpt(FLAGS)?;
    grantpt(&ours)?;
    pair(ours, size)
}

/// The same among the terminals of another instance of `devpts`, in which alone they have a name. What is no
/// such directory is refused: it may come from somebody who is not trusted.
pub fn open_in(dir: BorrowedFd<'_>, size: Size) -> io::Result<(OwnedFd, OwnedFd)> {
    if rustix::fs::fstatfs(dir)?.f_type != DEVPTS {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no place of terminals"));
    }
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    pair(rustix::fs::openat(dir, "ptmx", flags, Mode::empty())?, size)
}

/// Where the terminals of this process's root have their names.
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

/// Changes the size; whoever is in front there hears of it.
pub fn resize(terminal: BorrowedFd<'_>, size: Size) -> io::Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

/// The size; an error when it is no terminal.
pub fn size(terminal: BorrowedFd<'_>) -> io::Result<Size> {
    let size = tcgetwinsize(terminal)?;
    Ok(Size { rows: size.ws_row, columns: size.ws_col })
}

/// Whether a descriptor is a terminal.
pub fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    rustix::termios::isatty(fd)
}

/// Makes a terminal the one that controls this session of processes, which this process leads.
pub fn take_control(terminal: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::process::ioctl_tiocsctty(terminal)?)
}

/// Puts this process into a group of its own, in front of a terminal that its session has. The stopping signals must
/// be blocked: a background process that asks for the foreground is stopped otherwise.
pub fn take_foreground(terminal: BorrowedFd<'_>) -> io::Result<()> {
    rustix::process::setpgid(None, None)?;
    Ok(rustix::termios::tcsetpgrp(terminal, rustix::process::getpid())?)
}

/// The user's terminal with every key passed on as it is, until this is dropped.
#[derive(Debug)]
pub struct Raw<'t> {
    terminal: BorrowedFd<'t>,
    before: Termios,
}

impl<'t> Raw<'t> {
    /// Begins.
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
        // There is nobody to tell if the terminal is gone.
        let _ = tcsetattr(self.terminal, OptionalActions::Drain, &self.before);
    }
}
