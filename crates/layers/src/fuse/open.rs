//! Negotiation with the kernel, and the state of open files.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use fuser::{FileAttr, FopenFlags, INodeNo, InitFlags, KernelConfig, Notifier};

use super::backing::{Backing, OpenMode};
use super::convert::file_attr;
use crate::tree::{Item, Tree};

thread_local! {
    /// Buffer for read data, reused because allocating it for each request would cost more than reading.
    pub(super) static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Tree with its open files.
pub(super) struct Adapter {
    pub(super) tree: Arc<Tree>,
    pub(super) backing: Backing,
    /// True when the kernel supports directories without `FUSE_OPENDIR` (Linux 5.1,
    /// `FUSE_NO_OPENDIR_SUPPORT`).
    pub(super) no_opendir: AtomicBool,
    /// Sends unsolicited notifications to the kernel.
    notifier: Arc<OnceLock<Notifier>>,
}

impl Adapter {
    pub(super) fn new(tree: Arc<Tree>, notifier: Arc<OnceLock<Notifier>>) -> Self {
        Self { tree, backing: Backing::default(), no_opendir: AtomicBool::new(false), notifier }
    }

    /// Requests optional features from the kernel. An older kernel works without them.
    pub(super) fn negotiate(&self, config: &mut KernelConfig) {
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        let no_opendir = config.capabilities().contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        self.no_opendir.store(no_opendir, Ordering::Relaxed);
        let newer = config.capabilities().contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        self.backing.direct.store(newer, Ordering::Relaxed);
        let passthrough = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(1).is_ok();
        self.backing.passthrough.store(passthrough, Ordering::Relaxed);
        self.tree.keep_copies(passthrough);
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(64);
    }

    /// Stores the content of a small file that is opened for reading in the kernel's page cache.
    pub(super) fn preload(&self, id: u64, flags: i32, answer: FopenFlags) {
        let Some(notifier) = self.notifier.get() else { return };
        if flags & libc::O_ACCMODE != libc::O_RDONLY
            || !answer.contains(FopenFlags::FOPEN_KEEP_CACHE)
        {
            return;
        }
        BUFFER.with_borrow_mut(|buffer| {
            let Some(length) = self.tree.preload(id, buffer) else { return };
            // On failure, the kernel reads the content on demand.
            let _ = notifier.store(INodeNo(id), 0, &buffer[..length]);
            self.tree.end_preload(id);
        });
    }

    /// Returns the attributes of an entry, and true when the reply counts as a lookup. `.` and `..` do not count.
    pub(super) fn entry(&self, parent: u64, item: &Item) -> Option<(FileAttr, bool)> {
        if item.name == "." || item.name == ".." {
            let attr = self.tree.attr(parent).ok()?;
            return Some((FileAttr { ino: INodeNo(item.id), ..file_attr(&attr) }, false));
        }
        let attr = self.tree.peek(parent, item).ok()??;
        Some((file_attr(&attr), true))
    }
}

/// Returns the entries after an offset.
pub(super) fn behind(items: &[Item], offset: u64) -> &[Item] {
    &items[items.partition_point(|item| item.at <= offset)..]
}

/// Returns the reply flags of an opened file. A read-only file needs no flush when it is closed.
pub(super) fn open_flags(flags: i32, unchanged: bool, mode: &OpenMode) -> FopenFlags {
    let mut answer = match mode {
        OpenMode::Cached if unchanged => FopenFlags::FOPEN_KEEP_CACHE,
        // The kernel rejects cache flags together with passthrough: fuse-passthrough.rst.
        OpenMode::Cached | OpenMode::Passthrough(_) => FopenFlags::empty(),
        OpenMode::Direct => FopenFlags::FOPEN_DIRECT_IO,
    };
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        answer |= FopenFlags::FOPEN_NOFLUSH;
    }
    answer
}
