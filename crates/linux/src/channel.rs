//! Message channel from the processes of a sandbox to its supervisor, with sender pids and attached descriptors.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Received message.
#[derive(Debug)]
pub struct Message {
    /// Pid of the sender in the receiver's PID namespace. The kernel fills it in: unix(7), `SCM_CREDENTIALS`.
    pub pid: i32,
    /// Content.
    pub text: Vec<u8>,
    /// Attached descriptors.
    pub attached: Vec<OwnedFd>,
}

/// Maximum number of descriptors in one message.
const MOST: usize = 5;

/// Creates a connected pair `(receiver, sender)`.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (receiver, sender) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::sockopt::set_socket_passcred(&receiver, true)?;
    Ok((receiver, sender))
}

/// Receives one message; `None` once all senders are closed. Does not wait: fails with `WouldBlock` if no message
/// is pending.
pub fn receive(receiver: BorrowedFd<'_>) -> io::Result<Option<Message>> {
    let mut text = [0; 1024];
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1), ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = rustix::net::recvmsg(
        receiver,
        &mut [io::IoSliceMut::new(&mut text)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    )?;
    if message.bytes == 0 {
        return Ok(None);
    }
    let (mut pid, mut attached) = (0, Vec::new());
    for item in ancillary.drain() {
        match item {
            RecvAncillaryMessage::ScmCredentials(sender) => pid = sender.pid.as_raw_pid(),
            RecvAncillaryMessage::ScmRights(descriptors) => attached.extend(descriptors),
            _ => {}
        }
    }
    Ok(Some(Message { pid, text: text[..message.bytes].to_vec(), attached }))
}

/// Sends one message.
pub fn send(sender: BorrowedFd<'_>, text: &[u8]) -> io::Result<()> {
    rustix::io::write(sender, text).map(drop).map_err(Into::into)
}

/// Sends one message with at most five descriptors.
pub fn send_with(
    sender: BorrowedFd<'_>,
    text: &[u8],
    attached: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(attached)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let text = [io::IoSlice::new(text)];
    rustix::net::sendmsg(sender, &text, &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Readiness to wait for on a descriptor: poll(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// Readable data (`POLLIN`).
    Data,
    /// Exceptional condition (`POLLPRI`), such as a change of a mount table.
    Event,
    /// Space to write (`POLLOUT`).
    Writable,
}

/// Waits until a descriptor is ready or the time is over. Returns a flag for each descriptor.
pub fn wait(fds: &[(BorrowedFd<'_>, Awaited)], milliseconds: Option<u64>) -> io::Result<Vec<bool>> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let flags = |awaited| match awaited {
        Awaited::Data => PollFlags::IN,
        Awaited::Event => PollFlags::PRI,
        Awaited::Writable => PollFlags::OUT,
    };
    let mut polled: Vec<_> =
        fds.iter().map(|(fd, awaited)| PollFd::new(fd, flags(*awaited))).collect();
    let timeout = milliseconds.map(|ms| Timespec {
        tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ms % 1000 * 1_000_000).unwrap_or(0),
    });
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) => Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(vec![false; fds.len()]),
        Err(error) => Err(error.into()),
    }
}

/// Reads available bytes; returns 0 at the end of the stream.
pub fn read(from: BorrowedFd<'_>, text: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::read(from, &mut *text))?)
}

/// Writes part of `text` and returns the number of bytes written.
pub fn write(to: BorrowedFd<'_>, text: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::write(to, text))?)
}
