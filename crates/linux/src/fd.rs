//! File descriptors: inheritance across exec, kinds, and memory files.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, MemfdFlags, SealFlags, SeekFrom};
use rustix::io::FdFlags;

use crate::thread::SingleThreaded;

/// Sets close-on-exec on every descriptor except 0, 1 and 2.
pub fn close_all_on_exec() -> io::Result<()> {
    // `CLOSE_RANGE_CLOEXEC` needs Linux 5.11: close_range(2).
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

/// Clears close-on-exec, so that a program inherits this descriptor.
pub fn inherit(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd, FdFlags::empty())?)
}

/// Takes ownership of an inherited descriptor by its number.
///
/// Every descriptor that this process opened itself has close-on-exec set, and an inherited one cannot have it. So a
/// number with that flag already has an owner and is refused, as are standard descriptors and adopted ones.
pub fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    let flags = flags(number)?;
    if number <= 2 || flags.contains(FdFlags::CLOEXEC) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    close_on_exec(number)?;
    // SAFETY: the number is open and was inherited (checked above), so no object owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Returns the flags of a descriptor; fails if the number is not open.
fn flags(number: RawFd) -> io::Result<FdFlags> {
    // SAFETY: reads a flag; a number that is not open gives an error.
    match unsafe { libc::fcntl(number, libc::F_GETFD) } {
        -1 => Err(io::Error::last_os_error()),
        flags => Ok(FdFlags::from_bits_retain(flags.cast_unsigned())),
    }
}

/// Borrows a descriptor by its number; `None` if it is not open.
fn borrow(number: &RawFd) -> Option<BorrowedFd<'_>> {
    flags(*number).ok()?;
    // SAFETY: the number is open (checked above), and borrowed only to inspect it.
    Some(unsafe { BorrowedFd::borrow_raw(*number) })
}

/// Sets close-on-exec on a descriptor by its number.
fn close_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: only a flag changes; a number that is not open gives an error.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits until every reader of these pipes or sockets has closed its end.
pub fn wait_until_unread(fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut open: Vec<BorrowedFd<'_>> = fds.to_vec();
    while !open.is_empty() {
        // No events are requested: poll(2) always reports POLLERR and POLLHUP.
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

/// Creates a memory file with this content and its offset at the start: `memfd_create(2)`.
pub fn memory_file(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?;
    let mut rest = content;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&fd, rest)?..];
    }
    rustix::fs::seek(&fd, SeekFrom::Start(0))?;
    Ok(fd)
}

/// Creates a sealed, executable memory file.
pub fn memory_program(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // `MFD_EXEC` needs Linux 6.3. Older kernels make every memory file executable: memfd_create(2).
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

/// Kind of a standard descriptor, as far as a sandbox distinguishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Directory, through which the command could leave the sandbox.
    Directory,
    /// Regular file.
    File,
    /// Terminal, pipe, socket or device.
    Stream,
    /// Closed descriptor.
    Closed,
}

/// Returns the kind of descriptor 0, 1 or 2.
pub fn kind(fd: RawFd) -> Kind {
    let Some(Ok(stat)) = borrow(&fd).map(rustix::fs::fstat) else { return Kind::Closed };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Directory,
        FileType::RegularFile => Kind::File,
        _ => Kind::Stream,
    }
}

/// Returns true if descriptor 0, 1 or 2 is open for reading only.
pub fn is_read_only(fd: RawFd) -> bool {
    // SAFETY: reads a flag; a closed number gives -1.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_ACCMODE == libc::O_RDONLY
}

/// Closes every descriptor above standard error except this one, which becomes number 3. For a forked process that
/// shares nothing with its parent.
///
/// Fails if the process has other threads, which could still use their descriptors. An older descriptor that the
/// caller still uses afterwards gives `EBADF` or refers to another file.
pub fn keep_only(fd: OwnedFd) -> io::Result<OwnedFd> {
    const KEPT: RawFd = 3;
    SingleThreaded::prove()?;
    if fd.as_raw_fd() != KEPT {
        // SAFETY: plain numbers; the old descriptor 3 is closed, as documented above.
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

/// Replaces standard descriptor `number` by `new`. Fails for any other number, which could have an owner.
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

/// Returns the path of the terminal that descriptor 0, 1 or 2 refers to.
pub fn terminal(fd: RawFd) -> Option<std::path::PathBuf> {
    borrow(&fd).filter(|fd| rustix::termios::isatty(fd))?;
    std::fs::read_link(format!("/proc/self/fd/{fd}")).ok().filter(|path| path.starts_with("/dev/"))
}

/// Closes a descriptor and returns the error of a delayed write, if any: close(2). The descriptor is closed in any
/// case.
pub fn close(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open, and this function was its only owner.
    let done = unsafe { libc::close(fd.into_raw_fd()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
