//! What a sandbox tells whoever started it: "here I am", that it was stopped, or what went wrong.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// A message and the process that sent it, numbered as the receiver sees it.
#[derive(Debug)]
pub struct Message {
    /// Who sent it. The kernel fills this in, translated across PID namespaces.
    pub pid: i32,
    /// What it says.
    pub text: Vec<u8>,
    /// The descriptors that came with it.
    pub attached: Vec<OwnedFd>,
}

/// How many descriptors one message can carry.
const MOST: usize = 5;

/// A connected pair: messages written on the second arrive on the first with their sender.
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

/// Reads one message; `None` when none is there and none will come.
/// An error of the kind `WouldBlock` says that one may still come.
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

/// Sends one message with descriptors, at most five.
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

/// What to wait for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// Something can be read.
    Data,
    /// Something happened that is no data; for a mount table, that it changed.
    Event,
    /// Something can be written.
    Room,
}

/// Waits until something happens on one of the descriptors, or until the time is over.
/// Returns on which of them.
pub fn wait(fds: &[(BorrowedFd<'_>, Awaited)], milliseconds: Option<u64>) -> io::Result<Vec<bool>> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let flags = |awaited| match awaited {
        Awaited::Data => PollFlags::IN,
        Awaited::Event => PollFlags::PRI,
        Awaited::Room => PollFlags::OUT,
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

/// Reads what is there; nothing at the end.
pub fn read(from: BorrowedFd<'_>, text: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::read(from, &mut *text))?)
}

/// Writes some of it; returns how much.
pub fn write(to: BorrowedFd<'_>, text: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::write(to, text))?)
}
