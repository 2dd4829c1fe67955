//! FUSE requests: one method per kind.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, XattrFlags};

use super::backing::{OpenMode, register};
use super::convert::{
    GENERATION, TTL, caller, empty, entry, errno, file_attr, file_type, nothing, stamp, xattr,
};
use super::open::{Adapter, BUFFER, behind, open_flags};
use crate::tree::{Change, Make, Rename};

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.negotiate(config);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.tree.lookup(parent.0, name) {
            Ok(Some(attr)) => reply.entry(&TTL, &file_attr(&attr), GENERATION),
            Ok(None) => reply.entry(&TTL, &nothing(), GENERATION),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        self.tree.forget(ino.0, count);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.tree.attr(ino.0) {
            Ok(attr) => reply.attr(&TTL, &file_attr(&attr)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (atime, mtime) = (atime.map(stamp), mtime.map(stamp));
        let change = Change { mode, uid, gid, size, atime, mtime };
        match self.tree.set_attr(ino.0, &change, caller(request)) {
            Ok(attr) => reply.attr(&TTL, &file_attr(&attr)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.tree.target(ino.0) {
            Ok(target) => reply.data(target.as_encoded_bytes()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        // A mode without a type means a regular file (mknod(2)).
        let mode = if mode & libc::S_IFMT == 0 { mode | libc::S_IFREG } else { mode };
        let make = Make { mode, rdev: u64::from(rdev), target: None };
        entry(reply, self.tree.make(parent.0, name, make, caller(request)));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let make = Make { mode: mode & 0o7777 | libc::S_IFDIR, rdev: 0, target: None };
        entry(reply, self.tree.make(parent.0, name, make, caller(request)));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let make = Make { mode: libc::S_IFLNK | 0o777, rdev: 0, target: Some(target.as_os_str()) };
        entry(reply, self.tree.make(parent.0, name, make, caller(request)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.tree.unlink(parent.0, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.tree.rmdir(parent.0, name));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let how = match flags {
            flags if flags.is_empty() => Rename::Replace,
            RenameFlags::RENAME_NOREPLACE => Rename::NoReplace,
            RenameFlags::RENAME_EXCHANGE => Rename::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        empty(reply, self.tree.rename((parent.0, name), (newparent.0, newname), how));
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        entry(reply, self.tree.link(ino.0, newparent.0, newname));
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        // Without `FUSE_ATOMIC_O_TRUNC`, the kernel truncates. It first checks whether the file is being executed.
        let opened = match self.tree.open(ino.0) {
            Ok(opened) => opened,
            Err(error) => return reply.error(errno(error)),
        };
        let mode = self.backing.choose(&self.tree, ino.0, flags.0, register(&reply));
        let answer = open_flags(flags.0, opened.unchanged, &mode);
        self.preload(ino.0, flags.0, answer);
        match &mode {
            OpenMode::Passthrough(backing) => {
                reply.opened_passthrough(mode.handle(), answer, backing);
            }
            _ => reply.opened(mode.handle(), answer),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.tree.create(parent.0, name, mode, caller(request)) {
            Ok(attr) => {
                // A new file is small, so it has no plain file to pass through yet.
                let none = |_: &std::fs::File| Err(io::ErrorKind::Unsupported.into());
                let mode = self.backing.choose(&self.tree, attr.id, flags, none);
                let answer = open_flags(flags, true, &mode);
                reply.created(&TTL, &file_attr(&attr), GENERATION, mode.handle(), answer);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size as usize {
                buffer.resize(size as usize, 0);
            }
            match self.tree.read(ino.0, offset, &mut buffer[..size as usize]) {
                Ok(length) => reply.data(&buffer[..length]),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let kill = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        match self.tree.write(ino.0, offset, data, kill) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn flush(&self, _: &Request, ino: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        empty(reply, self.tree.flush(ino.0));
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.backing.close(&self.tree, ino.0, handle);
        self.tree.release(ino.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(reply, self.tree.sync(ino.0));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(reply, self.tree.sync(ino.0));
    }

    /// Opens a directory, which needs no state. After `ENOSYS` the kernel sends no more `FUSE_OPENDIR` and applies these
    /// flags without being told (`FUSE_NO_OPENDIR_SUPPORT`).
    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.no_opendir.load(Ordering::Relaxed) {
            return reply.error(Errno::ENOSYS);
        }
        let flags = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
        reply.opened(FileHandle(0), flags);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let items = match self.tree.items(ino.0, offset) {
            Ok(items) => items,
            Err(error) => return reply.error(errno(error)),
        };
        for item in behind(&items, offset) {
            if reply.add(INodeNo(item.id), item.at, file_type(item.kind), &item.name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let items = match self.tree.items(ino.0, offset) {
            Ok(items) => items,
            Err(error) => return reply.error(errno(error)),
        };
        for item in behind(&items, offset) {
            // Skip entries that were removed meanwhile.
            let Some((attr, counts)) = self.entry(ino.0, item) else { continue };
            if reply.add(attr.ino, item.at, &item.name, &TTL, &attr, GENERATION) {
                break;
            }
            if counts {
                self.tree.met(attr.ino.0);
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        match self.tree.disk() {
            Ok(disk) => reply.statfs(
                disk.f_blocks,
                disk.f_bfree,
                disk.f_bavail,
                disk.f_files,
                disk.f_ffree,
                small(disk.f_bsize),
                255,
                small(disk.f_frsize),
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        empty(reply, self.tree.set_xattr(ino.0, name, value, flags));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.tree.xattr(ino.0, name) {
            Ok(value) => xattr(reply, size, &value),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        match self.tree.xattrs(ino.0) {
            Ok(names) => {
                let mut list = Vec::new();
                for name in names {
                    list.extend_from_slice(name.as_encoded_bytes());
                    list.push(0);
                }
                xattr(reply, size, &list);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.tree.remove_xattr(ino.0, name));
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        empty(reply, self.tree.allocate(ino.0, offset, length, mode, caller(request)));
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::EINVAL) };
        match self.tree.seek(ino.0, offset, whence == libc::SEEK_HOLE) {
            Ok(offset) => reply.offset(offset.cast_signed()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        ino_in: INodeNo,
        _: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        _: FileHandle,
        offset_out: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = ((ino_in.0, offset_in), (ino_out.0, offset_out));
        match self.tree.copy_range(from, to, length, caller(request)) {
            Ok(count) => reply.written(u32::try_from(count).unwrap_or(u32::MAX)),
            Err(error) => reply.error(errno(error)),
        }
    }
}
