//! Attaching a FUSE connection to a directory and detaching it: with system calls as root, with `fusermount3` as any
//! other user.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::{Access, MountError};

/// Program that mounts for ordinary users. It is set-user-ID root.
const HELPER: &str = "fusermount3";

/// Mounts a new connection and returns the descriptor that receives its requests.
pub(super) fn attach(source: &Path, at: &Path, access: Access) -> Result<OwnedFd, MountError> {
    if sandbox_linux::process::uid() == 0 {
        match by_call(source, at, access) {
            // Root in a user namespace, or without `CAP_SYS_ADMIN`.
            Err(MountError::Refused { source: error, .. })
                if error.raw_os_error() == Some(libc::EPERM) => {}
            done => return done,
        }
    }
    by_helper(source, at, access)
}

fn device() -> Result<OwnedFd, MountError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open("/dev/fuse", flags, Mode::empty())
        .map_err(|error| MountError::NoFuse(error.into()))
}

fn by_call(source: &Path, at: &Path, access: Access) -> Result<OwnedFd, MountError> {
    let device = device()?;
    let others = if access == Access::Owner { "" } else { ",allow_other" };
    let (uid, gid) = (sandbox_linux::process::uid(), sandbox_linux::process::gid());
    let data = format!(
        "fd={},rootmode=40000,user_id={uid},group_id={gid},default_permissions{others}",
        device.as_raw_fd()
    );
    let data =
        std::ffi::CString::new(data).map_err(|_| MountError::refused(at, Errno::INVAL.into()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(source, at, super::table::KIND, flags, Some(data.as_c_str()))
        .map_err(|error| MountError::refused(at, error.into()))?;
    Ok(device)
}

fn by_helper(source: &Path, at: &Path, access: Access) -> Result<OwnedFd, MountError> {
    let (ours, theirs) = UnixStream::pair().map_err(|error| MountError::refused(at, error))?;
    // The helper inherits this end. No other program can, because this process has only one thread.
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty())
        .map_err(|error| MountError::refused(at, error.into()))?;
    let mut helper = sandbox_linux::process::command(HELPER)
        .arg("-o")
        .arg(options(source, access))
        .arg("--")
        .arg(at)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => MountError::NoHelper,
            _ => MountError::refused(at, error),
        })?;
    drop(theirs);
    let received = receive(&ours);
    let mut said = String::new();
    if let Some(mut stderr) = helper.stderr.take() {
        let _ = stderr.read_to_string(&mut said);
    }
    let _ = helper.wait();
    match received {
        Ok(Some(device)) => Ok(device),
        Ok(None) => Err(helper_refused(at, &said)),
        Err(error) => Err(MountError::refused(at, error)),
    }
}

/// Turns the message of the helper into an error.
fn helper_refused(at: &Path, said: &str) -> MountError {
    let said = said.trim().trim_start_matches("fusermount3: ").to_owned();
    if said.contains("user_allow_other") {
        return MountError::OthersForbidden;
    }
    if said.contains("/dev/fuse") {
        return MountError::NoFuse(io::Error::other(said));
    }
    MountError::refused(at, io::Error::other(said))
}

/// Returns the mount options. A comma in a path is escaped, because it would start another option.
fn options(source: &Path, access: Access) -> OsString {
    let mut options = b"default_permissions,nosuid,nodev,subtype=agentfs,".to_vec();
    if access != Access::Owner {
        options.extend(b"allow_other,");
    }
    options.extend(b"fsname=");
    for byte in source.as_os_str().as_bytes() {
        if matches!(byte, b',' | b'\\') {
            options.push(b'\\');
        }
        options.push(*byte);
    }
    OsString::from_vec(options)
}

/// Receives the descriptor from the helper; `None` if the helper ends without sending one.
fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(&mut byte)],
            &mut ancillary,
            flags,
        )
    })?;
    Ok(ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sent) => sent.next(),
        _ => None,
    }))
}

/// Mode of detaching a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detach {
    /// Fails if the mount is in use.
    Idle,
    /// Removes the mountpoint at once. The mount ends with its last user.
    Lazy,
}

/// Detaches a mount.
pub fn detach(at: &Path, how: Detach) -> io::Result<()> {
    let lazy = if how == Detach::Lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(at, UnmountFlags::NOFOLLOW | lazy) {
        Err(Errno::PERM) => {}
        done => return Ok(done?),
    }
    let mut helper = sandbox_linux::process::command(HELPER);
    helper.arg("-u").args((how == Detach::Lazy).then_some("-z")).arg("--").arg(at);
    let done = helper.stdin(Stdio::null()).output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    if said.to_lowercase().contains("busy") {
        return Err(Errno::BUSY.into());
    }
    Err(io::Error::other(said))
}

/// Aborts a connection, so that every request on it fails from now on.
pub(super) fn abort(device: &str) -> io::Result<()> {
    let minor = device.split_once(':').map_or(OsStr::new(""), |(_, minor)| OsStr::new(minor));
    let path: PathBuf =
        [OsStr::new("/sys/fs/fuse/connections"), minor, OsStr::new("abort")].iter().collect();
    std::fs::write(path, "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_add_options_when_it_holds_a_comma() {
        let options = options(Path::new(r"/d/x,allow_other,\y.db"), Access::Owner);
        assert!(options.as_bytes().ends_with(br"fsname=/d/x\,allow_other\,\\y.db"), "{options:?}");
        assert!(!options.to_string_lossy().contains(",allow_other,f"), "{options:?}");
    }
}
