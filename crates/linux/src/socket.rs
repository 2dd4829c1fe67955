//! Unix sockets in the file system that carry messages (`SOCK_SEQPACKET`), and helpers for pipes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Maximum number of pending connections.
const BACKLOG: i32 = 128;

/// Listens on a socket in a directory. Replaces an existing file of that name.
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

/// Connects to a socket in a directory.
pub fn connect(dir: &Path, name: &str) -> io::Result<OwnedFd> {
    let (_dir, address) = address(dir, name)?;
    let socket = new()?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// Accepts the next connection. On a nonblocking listener, fails with `WouldBlock` if none is pending.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, SocketFlags::CLOEXEC)?)
}

/// Makes [`accept`] nonblocking.
pub fn set_nonblocking(listener: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(listener, true)?)
}

fn new() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Returns an address relative to an open directory, because an address holds only 107 bytes: unix(7).
fn address(dir: &Path, name: &str) -> io::Result<(OwnedFd, SocketAddrUnix)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}/{name}", dir.as_raw_fd());
    Ok((dir, SocketAddrUnix::new(path)?))
}

/// Returns true if a descriptor is a pipe.
pub fn is_pipe(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Fifo
    })
}

/// Opens `/dev/null` for reading and writing.
pub fn dev_null() -> io::Result<OwnedFd> {
    File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from)
}

/// Creates a pipe and returns its ends: `(reader, writer)`.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Duplicates a descriptor with close-on-exec set.
pub fn copy(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned()
}
