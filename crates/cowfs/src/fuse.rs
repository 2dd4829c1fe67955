//! The view as a FUSE file system: kernel requests in, answers out, nothing decided.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Config, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, SessionACL,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, XattrFlags};
use thiserror::Error;

use crate::store::{Kind, Store, StoreError, Time};
use crate::tree::{
    Attr, Base, Caller, Change, Listing, Make, Owner, PATIENCE, Rename, Stamp, Tree,
};

/// Nobody else changes what is shown: the kernel may believe it for a day.
const TTL: Duration = Duration::from_secs(86400);
/// Numbers are never given out twice, so that one generation is enough.
const GENERATION: Generation = Generation(0);

/// Who may use the mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Allow {
    /// The user who mounts it.
    #[default]
    Owner,
    /// That user and root.
    Root,
    /// Everybody, as far as the modes of files let them.
    All,
}

/// How to mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Who may use it.
    pub allow: Allow,
    /// Unmount when this process ends, however it ends. Needs `fusermount3`, and more than the owner.
    pub auto_unmount: bool,
    /// What `mount` shows as the source.
    pub source: String,
    /// How many requests are answered at once.
    pub threads: usize,
    /// Who is shown as the owner of every file.
    pub owner: Owner,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            allow: Allow::Owner,
            auto_unmount: false,
            source: "agent-sandbox".into(),
            threads: threads.clamp(2, 8),
            owner: Owner::default(),
        }
    }
}

/// Why a mount failed.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The kernel refused.
    #[error("cannot mount at `{mountpoint}`")]
    Mount {
        /// Where.
        mountpoint: String,
        /// Why.
        source: io::Error,
    },
    /// The database failed.
    #[error("cannot use the database")]
    Store(#[from] StoreError),
    /// The connection to the kernel broke.
    #[error("the mount broke")]
    Broken(#[source] io::Error),
}

/// Mounts the view of `store` over `base` at `mountpoint` and serves it until it is unmounted; then
/// the database is at rest. `ready` is called when the mount stands.
pub fn serve(
    store: Store,
    base: Option<Arc<dyn Base>>,
    mountpoint: &Path,
    options: &Options,
    ready: impl FnOnce(),
) -> Result<(), ServeError> {
    serve_by(store, base, options, ready, |adapter| {
        fuser::Session::new(adapter, mountpoint, &config(options)).map_err(|source| {
            ServeError::Mount { mountpoint: mountpoint.display().to_string(), source }
        })
    })
}

/// The same for a connection that is mounted already.
pub fn serve_on(
    store: Store,
    base: Option<Arc<dyn Base>>,
    device: OwnedFd,
    options: &Options,
    ready: impl FnOnce(),
) -> Result<(), ServeError> {
    serve_by(store, base, options, ready, |adapter| {
        let config = config(options);
        fuser::Session::from_fd(adapter, device, config.acl, config).map_err(ServeError::Broken)
    })
}

fn serve_by(
    store: Store,
    base: Option<Arc<dyn Base>>,
    options: &Options,
    ready: impl FnOnce(),
    begin: impl FnOnce(Adapter) -> Result<fuser::Session<Adapter>, ServeError>,
) -> Result<(), ServeError> {
    let tree = Tree::new(store, base).map_err(|error| StoreError::Io(error.into()))?;
    tree.show_owner(options.owner);
    let tree = Arc::new(tree);
    let served =
        begin(Adapter::new(Arc::clone(&tree))).and_then(|session| run(&tree, session, ready));
    let tree = Arc::try_unwrap(tree)
        .map_err(|_| ServeError::Broken(io::Error::other("a request is still being answered")))?;
    let closed = tree.close();
    served?;
    Ok(closed?)
}

fn run(
    tree: &Tree,
    session: fuser::Session<Adapter>,
    ready: impl FnOnce(),
) -> Result<(), ServeError> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                std::thread::park_timeout(PATIENCE);
                tree.tick();
            }
        });
        ready();
        let served = session.run().map_err(ServeError::Broken);
        over.store(true, Ordering::Release);
        keeper.thread().unpark();
        served
    })
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.clone()),
        MountOption::Subtype("agentfs".into()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    if options.auto_unmount {
        config.mount_options.push(MountOption::AutoUnmount);
    }
    config.acl = match options.allow {
        Allow::Owner => SessionACL::Owner,
        Allow::Root => SessionACL::RootAndOwner,
        Allow::All => SessionACL::All,
    };
    config.n_threads = Some(options.threads);
    config.clone_fd = true;
    config
}

/// The tree, with the directories that are open.
struct Adapter {
    tree: Arc<Tree>,
    listings: Mutex<HashMap<u64, Arc<Listing>>>,
    next: AtomicU64,
}

impl Adapter {
    fn new(tree: Arc<Tree>) -> Self {
        Self { tree, listings: Mutex::default(), next: AtomicU64::new(1) }
    }

    fn listing(&self, handle: FileHandle) -> Result<Arc<Listing>, Errno> {
        let listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        listings.get(&handle.0).cloned().ok_or(Errno::EBADF)
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid() }
}

fn file_type(kind: Kind) -> FileType {
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

fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.sec.unsigned_abs());
    let start =
        if time.sec < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    start.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(u64::from(time.nsec))
}

fn stamp(time: TimeOrNow) -> Stamp {
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

fn file_attr(attr: &Attr) -> FileAttr {
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

fn entry(reply: ReplyEntry, result: rustix::io::Result<Attr>) {
    match result {
        Ok(attr) => reply.entry(&TTL, &file_attr(&attr), GENERATION),
        Err(error) => reply.error(errno(error)),
    }
}

fn empty(reply: ReplyEmpty, result: rustix::io::Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn xattr(reply: ReplyXattr, size: u32, value: &[u8]) {
    match u32::try_from(value.len()) {
        Ok(length) if size == 0 => reply.size(length),
        Ok(length) if length <= size => reply.data(value),
        _ => reply.error(Errno::ERANGE),
    }
}

/// A name that is not there: the kernel may remember that too.
fn nothing() -> FileAttr {
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

fn writes(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Closing what cannot have been written needs no word.
fn open_flags(flags: i32, unchanged: bool) -> FopenFlags {
    let mut answer = FopenFlags::empty();
    if unchanged {
        answer |= FopenFlags::FOPEN_KEEP_CACHE;
    }
    if !writes(flags) {
        answer |= FopenFlags::FOPEN_NOFLUSH;
    }
    answer
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            // An older kernel does without.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(64);
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
        // Without a type, a regular file is meant.
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
        // Truncating is left to the kernel, which first asks whether the file is being executed.
        match self.tree.open(ino.0) {
            Ok(opened) => reply.opened(FileHandle(0), open_flags(flags.0, opened.unchanged)),
            Err(error) => reply.error(errno(error)),
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
                let flags = open_flags(flags, true);
                reply.created(&TTL, &file_attr(&attr), GENERATION, FileHandle(0), flags);
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
        let mut buffer = vec![0; size as usize];
        match self.tree.read(ino.0, offset, &mut buffer) {
            Ok(length) => reply.data(&buffer[..length]),
            Err(error) => reply.error(errno(error)),
        }
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
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.tree.release(ino.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(reply, self.tree.sync(ino.0));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(reply, self.tree.sync(ino.0));
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        listings.insert(handle, Arc::default());
        let flags = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
        reply.opened(FileHandle(handle), flags);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let items = match self.listing(handle) {
            Ok(listing) => match self.tree.items(ino.0, &listing, offset) {
                Ok(items) => items,
                Err(error) => return reply.error(errno(error)),
            },
            Err(error) => return reply.error(error),
        };
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        for (index, item) in items.iter().enumerate().skip(start) {
            let next = index as u64 + 1;
            if reply.add(INodeNo(item.id), next, file_type(item.kind), &item.name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let items = match self.listing(handle) {
            Ok(listing) => match self.tree.items(ino.0, &listing, offset) {
                Ok(items) => items,
                Err(error) => return reply.error(errno(error)),
            },
            Err(error) => return reply.error(error),
        };
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        for (index, item) in items.iter().enumerate().skip(start) {
            let next = index as u64 + 1;
            let is_dot = item.name == "." || item.name == "..";
            // What went away meanwhile is left out.
            let attr = if is_dot { self.tree.attr(ino.0) } else { self.peek(ino.0, &item.name) };
            let Ok(attr) = attr else { continue };
            let attr = FileAttr {
                ino: INodeNo(if is_dot { item.id } else { attr.id }),
                ..file_attr(&attr)
            };
            if reply.add(attr.ino, next, &item.name, &TTL, &attr, GENERATION) {
                break;
            }
            if !is_dot {
                self.tree.met(attr.ino.0);
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
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

impl Adapter {
    fn peek(&self, parent: u64, name: &OsStr) -> rustix::io::Result<Attr> {
        self.tree.peek(parent, name)?.ok_or(rustix::io::Errno::NOENT)
    }
}
