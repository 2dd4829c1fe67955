//! Descriptors: which ones a program inherits, and files that live in memory only.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, MemfdFlags, SealFlags, SeekFrom};
use rustix::io::FdFlags;

/// Marks every descriptor but 0, 1 and 2 as not to be inherited.
pub fn close_all_on_exec() -> io::Result<()> {
    // The flag is as old as Linux 5.11.
    close_range_on_exec().or_else(|_| close_each_on_exec())
}

fn close_each_on_exec() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        if let Some(number) = number.filter(|number| *number > 2) {
            close_on_exec(number)?;
        }
    }
    Ok(())
}

fn close_range_on_exec() -> io::Result<()> {
    // SAFETY: only sets a flag on open descriptors; no Rust object is invalidated.
    let done = unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a program inherit this descriptor after all.
pub fn inherit(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd, FdFlags::empty())?)
}

/// Marks one descriptor, given by number, as not to be inherited.
pub fn close_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: only a flag changes; a number that is no open descriptor gives an error.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits until nobody reads any of these pipes or sockets any more.
pub fn wait_until_unread(fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut open: Vec<BorrowedFd<'_>> = fds.to_vec();
    while !open.is_empty() {
        // Nothing is asked for: that the other end is gone is always told.
        let mut polled: Vec<_> =
            open.iter().map(|fd| PollFd::new(fd, PollFlags::empty())).collect();
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut gone = gone.into_iter();
        open.retain(|_| !gone.next().unwrap_or(false));
    }
    Ok(())
}

/// A file in memory with this content, read from the start.
pub fn memory_file(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?;
    let mut rest = content;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&fd, rest)?..];
    }
    rustix::fs::seek(&fd, SeekFrom::Start(0))?;
    Ok(fd)
}

/// A program in memory that nobody can change any more.
pub fn memory_program(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Before 6.3 the kernel does not know the flag, and every such file can be executed.
    let fd = rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC)
        .or_else(|_| rustix::fs::memfd_create(name, flags))?;
    let mut rest = content;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&fd, rest)?..];
    }
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&fd, seals)?;
    Ok(fd)
}

/// What kind of thing the standard descriptors are, as far as it matters to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory: a way to walk out of any sandbox.
    Directory,
    /// A regular file.
    File,
    /// A terminal, pipe, socket or device.
    Stream,
    /// Not open.
    Closed,
}

/// What descriptor 0, 1 or 2 is.
pub fn kind(fd: RawFd) -> Kind {
    // SAFETY: the borrow lasts for this call only; a closed number gives an error.
    let Ok(stat) = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(fd) }) else {
        return Kind::Closed;
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Directory,
        FileType::RegularFile => Kind::File,
        _ => Kind::Stream,
    }
}

/// Whether descriptor 0, 1 or 2 is open for reading only.
pub fn is_read_only(fd: RawFd) -> bool {
    // SAFETY: reads a flag; a closed number gives -1.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_ACCMODE == libc::O_RDONLY
}

/// Closes every descriptor above standard error but this one, which becomes number 3. For a process
/// that begins a life of its own after a fork: nothing in it may use a descriptor from before.
pub fn keep_only(fd: OwnedFd) -> io::Result<OwnedFd> {
    const KEPT: RawFd = 3;
    if fd.as_raw_fd() != KEPT {
        // SAFETY: plain numbers; whatever was open as 3 is given up, as is said above.
        if unsafe { libc::dup3(fd.as_raw_fd(), KEPT, libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    std::mem::forget(fd);
    let first = KEPT.unsigned_abs() + 1;
    // SAFETY: plain numbers; nothing in this process uses these descriptors any more.
    if unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened above, and its only other owner was forgotten.
    Ok(unsafe { OwnedFd::from_raw_fd(KEPT) })
}

/// Puts `new` in the place of descriptor `number`.
pub fn replace(number: RawFd, new: &OwnedFd) -> io::Result<()> {
    // SAFETY: `number` is one of the standard descriptors, which no Rust object owns.
    match unsafe { libc::dup2(new.as_raw_fd(), number) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The terminal that descriptor 0, 1 or 2 is, by its name.
pub fn terminal(fd: RawFd) -> Option<std::path::PathBuf> {
    // SAFETY: the borrow lasts for this call only; a closed number is no terminal.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    if !rustix::termios::isatty(borrowed) {
        return None;
    }
    std::fs::read_link(format!("/proc/self/fd/{fd}")).ok().filter(|path| path.starts_with("/dev/"))
}

/// Closes a descriptor and tells what the file system said to it: a write that was put off may fail
/// only then. The descriptor is gone in any case.
pub fn close(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open and was ours alone; nobody can use it any more.
    let done = unsafe { libc::close(fd.into_raw_fd()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
