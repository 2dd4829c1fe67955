//! Descriptors: which ones a program inherits, and files that live in memory only.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, MemfdFlags, SealFlags, SeekFrom};
use rustix::io::FdFlags;

use crate::thread::SingleThreaded;

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

/// Takes over a descriptor that this process was started with, by its number.
///
/// Every descriptor that the process opened itself is closed on exec, and one that survived an exec
/// is not. So a number with that flag has an owner already, and is refused; so is a standard
/// descriptor, and one that was adopted before.
pub fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    let flags = flags(number)?;
    if number <= 2 || flags.contains(FdFlags::CLOEXEC) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    close_on_exec(number)?;
    // SAFETY: the number is open and was inherited (checked above), so no object owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Reads the flags of a number; fails if it is no open descriptor.
fn flags(number: RawFd) -> io::Result<FdFlags> {
    // SAFETY: reads a flag; a number that is no open descriptor gives an error.
    match unsafe { libc::fcntl(number, libc::F_GETFD) } {
        -1 => Err(io::Error::last_os_error()),
        flags => Ok(FdFlags::from_bits_retain(flags.cast_unsigned())),
    }
}

/// Borrows a number for the time of a question; `None` if it is no open descriptor.
fn borrow(number: &RawFd) -> Option<BorrowedFd<'_>> {
    flags(*number).ok()?;
    // SAFETY: the number is open (checked above), and borrowed only to read what it is.
    Some(unsafe { BorrowedFd::borrow_raw(*number) })
}

/// Marks one descriptor, given by number, as not to be inherited.
fn close_on_exec(fd: RawFd) -> io::Result<()> {
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
    let Some(Ok(stat)) = borrow(&fd).map(rustix::fs::fstat) else { return Kind::Closed };
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
///
/// Fails if the process has other threads, whose descriptors would be closed under them. A
/// descriptor from before that the caller still uses gives `EBADF`, or is another file.
pub fn keep_only(fd: OwnedFd) -> io::Result<OwnedFd> {
    const KEPT: RawFd = 3;
    SingleThreaded::prove()?;
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

/// Puts `new` in the place of standard descriptor `number`. Fails for any other number, which could
/// have an owner.
pub fn replace(number: RawFd, new: &OwnedFd) -> io::Result<()> {
    if !(0..=2).contains(&number) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: `number` is one of the standard descriptors (checked above), which no object owns.
    match unsafe { libc::dup2(new.as_raw_fd(), number) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The terminal that descriptor 0, 1 or 2 is, by its name.
pub fn terminal(fd: RawFd) -> Option<std::path::PathBuf> {
    borrow(&fd).filter(|fd| rustix::termios::isatty(fd))?;
    std::fs::read_link(format!("/proc/self/fd/{fd}")).ok().filter(|path| path.starts_with("/dev/"))
}

/// Closes a descriptor and tells what the file system said to it: a write that was put off may fail
/// only then. The descriptor is gone in any case.
pub fn close(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open and was ours alone; nobody can use it any more.
    let done = unsafe { libc::close(fd.into_raw_fd()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
