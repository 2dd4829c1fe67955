//! What the kernel is asked for, what is open, and how.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use fuser::{FileAttr, FopenFlags, INodeNo, InitFlags, KernelConfig, Notifier};

use super::backing::{Backing, OpenMode};
use super::convert::file_attr;
use crate::tree::{Item, Tree};

thread_local! {
    /// What is read, on its way out. Making it anew each time would cost more than reading.
    pub(super) static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The tree, with the files that are open.
pub(super) struct Adapter {
    pub(super) tree: Arc<Tree>,
    pub(super) backing: Backing,
    /// True when the kernel can do without a word when a directory is opened: Linux 5.1.
    pub(super) silent: AtomicBool,
    /// Says things to the kernel that it did not ask for.
    notifier: Arc<OnceLock<Notifier>>,
}

impl Adapter {
    pub(super) fn new(tree: Arc<Tree>, notifier: Arc<OnceLock<Notifier>>) -> Self {
        Self { tree, backing: Backing::default(), silent: AtomicBool::new(false), notifier }
    }

    /// Asks the kernel for what it has of use to us; an older one does without.
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
        let silent = config.capabilities().contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        self.silent.store(silent, Ordering::Relaxed);
        let newer = config.capabilities().contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        self.backing.direct.store(newer, Ordering::Relaxed);
        let past = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(1).is_ok();
        self.backing.past.store(past, Ordering::Relaxed);
        self.tree.keep_copies(past);
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(64);
    }

    /// Gives the kernel the content of a small file that is opened to be read.
    pub(super) fn feed(&self, id: u64, flags: i32, answer: FopenFlags) {
        let Some(notifier) = self.notifier.get() else { return };
        if flags & libc::O_ACCMODE != libc::O_RDONLY
            || !answer.contains(FopenFlags::FOPEN_KEEP_CACHE)
        {
            return;
        }
        BUFFER.with_borrow_mut(|buffer| {
            let Some(length) = self.tree.feed(id, buffer) else { return };
            // What it does not take, it will ask for.
            let _ = notifier.store(INodeNo(id), 0, &buffer[..length]);
            self.tree.fed(id);
        });
    }

    /// What an entry is, and whether telling the kernel of it counts: of `.` and `..` it does not.
    pub(super) fn entry(&self, parent: u64, item: &Item) -> Option<(FileAttr, bool)> {
        if item.name == "." || item.name == ".." {
            let attr = self.tree.attr(parent).ok()?;
            return Some((FileAttr { ino: INodeNo(item.id), ..file_attr(&attr) }, false));
        }
        let attr = self.tree.peek(parent, item).ok()??;
        Some((file_attr(&attr), true))
    }
}

/// The entries behind an offset.
pub(super) fn behind(items: &[Item], offset: u64) -> &[Item] {
    &items[items.partition_point(|item| item.at <= offset)..]
}

/// Closing what cannot have been written needs no word.
pub(super) fn open_flags(flags: i32, unchanged: bool, way: &OpenMode) -> FopenFlags {
    let mut answer = match way {
        OpenMode::Cached if unchanged => FopenFlags::FOPEN_KEEP_CACHE,
        // The kernel refuses any word about the cache where none is used.
        OpenMode::Cached | OpenMode::Past(_) => FopenFlags::empty(),
        OpenMode::Direct => FopenFlags::FOPEN_DIRECT_IO,
    };
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        answer |= FopenFlags::FOPEN_NOFLUSH;
    }
    answer
}
