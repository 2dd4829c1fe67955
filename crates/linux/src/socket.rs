//! Sockets in the file system that carry whole messages, with descriptors where somebody sends some.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// How many callers may wait.
const BACKLOG: i32 = 128;

/// Listens at a name in a directory; what was there by that name goes.
pub fn listen(dir: &Path, name: &str) -> io::Result<OwnedFd> {
    let (dir, address) = address(dir, name)?;
    match rustix::fs::unlinkat(&dir, name, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let socket = new()?;
    rustix::net::bind(&socket, &address)?;
    rustix::fs::chmodat(&dir, name, Mode::RUSR | Mode::WUSR, rustix::fs::AtFlags::empty())?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Calls whoever listens at a name in a directory.
pub fn connect(dir: &Path, name: &str) -> io::Result<OwnedFd> {
    let (_dir, address) = address(dir, name)?;
    let socket = new()?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// The next caller; an error of the kind `WouldBlock` when nobody waits any more.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, SocketFlags::CLOEXEC)?)
}

/// Makes [`accept`] come back when nobody waits.
pub fn set_nonblocking(listener: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(listener, true)?)
}

fn new() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// A name by way of an open directory: an address holds 107 bytes, and a path may be longer.
fn address(dir: &Path, name: &str) -> io::Result<(OwnedFd, SocketAddrUnix)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}/{name}", dir.as_raw_fd());
    Ok((dir, SocketAddrUnix::new(path)?))
}

/// What kind of thing a descriptor is, for whoever passes it on to a sandbox.
pub fn is_pipe(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Fifo
    })
}

/// Nothing to read, and nobody to write to.
pub fn dev_null() -> io::Result<OwnedFd> {
    File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from)
}

/// Both ends of a new pipe: to read, to write.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// A copy of a descriptor that no program inherits.
pub fn copy(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned()
}
