//! Conversion between values of the tree and of FUSE.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileType, Generation, INodeNo, ReplyEmpty, ReplyEntry, ReplyXattr, Request,
    TimeOrNow,
};

use crate::store::{Kind, Time};
use crate::tree::{Attr, Caller, Stamp};

/// Time for which the kernel may cache attributes and names. Only the kernel changes them, so it is a day.
pub(super) const TTL: Duration = Duration::from_secs(86400);
/// Inode numbers are never reused, so one generation is enough.
pub(super) const GENERATION: Generation = Generation(0);

pub(super) fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

pub(super) fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid() }
}

pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Dir => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::Char => FileType::CharDevice,
        Kind::Block => FileType::BlockDevice,
    }
}

pub(super) fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.sec.unsigned_abs());
    let start =
        if time.sec < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    start.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(u64::from(time.nsec))
}

pub(super) fn stamp(time: TimeOrNow) -> Stamp {
    match time {
        TimeOrNow::Now => Stamp::Now,
        TimeOrNow::SpecificTime(time) => Stamp::At(match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Time { sec: since.as_secs().cast_signed(), nsec: since.subsec_nanos() },
            Err(error) => before_1970(error.duration()),
        }),
    }
}

fn before_1970(until: Duration) -> Time {
    let sec = -until.as_secs().cast_signed();
    match until.subsec_nanos() {
        0 => Time { sec, nsec: 0 },
        nsec => Time { sec: sec - 1, nsec: 1_000_000_000 - nsec },
    }
}

pub(super) fn file_attr(attr: &Attr) -> FileAttr {
    let inode = &attr.inode;
    FileAttr {
        ino: INodeNo(attr.id),
        size: inode.size,
        blocks: attr.blocks,
        atime: system_time(inode.atime),
        mtime: system_time(inode.mtime),
        ctime: system_time(inode.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(inode.kind()),
        perm: u16::try_from(inode.mode & 0o7777).unwrap_or(0),
        nlink: inode.nlink,
        uid: inode.uid,
        gid: inode.gid,
        rdev: u32::try_from(inode.rdev & 0xffff_ffff).unwrap_or(0),
        blksize: 4096,
        flags: 0,
    }
}

pub(super) fn entry(reply: ReplyEntry, result: rustix::io::Result<Attr>) {
    match result {
        Ok(attr) => reply.entry(&TTL, &file_attr(&attr), GENERATION),
        Err(error) => reply.error(errno(error)),
    }
}

pub(super) fn empty(reply: ReplyEmpty, result: rustix::io::Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

pub(super) fn xattr(reply: ReplyXattr, size: u32, value: &[u8]) {
    match u32::try_from(value.len()) {
        Ok(length) if size == 0 => reply.size(length),
        Ok(length) if length <= size => reply.data(value),
        _ => reply.error(Errno::ERANGE),
    }
}

/// Returns the reply for a missing name, which lets the kernel cache its absence.
pub(super) fn nothing() -> FileAttr {
    let time = UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}
