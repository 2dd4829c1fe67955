//! What is open: files with their ways, directories with their entries.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fuser::{Errno, FileAttr, FileHandle, FopenFlags, INodeNo, InitFlags, KernelConfig};

use super::backing::{Backing, Way};
use super::convert::{errno, file_attr};
use crate::tree::{Item, Listing, Tree};

/// The tree, with the files and directories that are open.
pub(super) struct Adapter {
    pub(super) tree: Arc<Tree>,
    pub(super) backing: Backing,
    listings: Mutex<HashMap<u64, Arc<Listing>>>,
    next: AtomicU64,
}

impl Adapter {
    pub(super) fn new(tree: Arc<Tree>) -> Self {
        let (backing, listings) = (Backing::default(), Mutex::default());
        Self { tree, backing, listings, next: AtomicU64::new(1) }
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
        let newer = config.capabilities().contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        self.backing.direct.store(newer, Ordering::Relaxed);
        let past = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(1).is_ok();
        self.backing.past.store(past, Ordering::Relaxed);
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(64);
    }

    pub(super) fn open_dir(&self) -> FileHandle {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.listings().insert(handle, Arc::default());
        FileHandle(handle)
    }

    pub(super) fn close_dir(&self, handle: FileHandle) {
        self.listings().remove(&handle.0);
    }

    fn listings(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Listing>>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entries of an open directory.
    pub(super) fn items(
        &self,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
    ) -> Result<Arc<Vec<Item>>, Errno> {
        let listing = self.listings().get(&handle.0).cloned().ok_or(Errno::EBADF)?;
        self.tree.items(ino.0, &listing, offset).map_err(errno)
    }

    /// What an entry is, and whether telling the kernel of it counts: of `.` and `..` it does not.
    pub(super) fn entry(&self, parent: u64, item: &Item) -> Option<(FileAttr, bool)> {
        if item.name == "." || item.name == ".." {
            let attr = self.tree.attr(parent).ok()?;
            return Some((FileAttr { ino: INodeNo(item.id), ..file_attr(&attr) }, false));
        }
        let attr = self.tree.peek(parent, &item.name).ok()??;
        Some((file_attr(&attr), true))
    }
}

/// The entries from an offset on, each with the offset behind it.
pub(super) fn from(items: &[Item], offset: u64) -> impl Iterator<Item = (u64, &Item)> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    items.iter().enumerate().skip(start).map(|(index, item)| (index as u64 + 1, item))
}

/// Closing what cannot have been written needs no word.
pub(super) fn open_flags(flags: i32, unchanged: bool, way: &Way) -> FopenFlags {
    let mut answer = match way {
        Way::Cached if unchanged => FopenFlags::FOPEN_KEEP_CACHE,
        // The kernel refuses any word about the cache where none is used.
        Way::Cached | Way::Past(_) => FopenFlags::empty(),
        Way::Direct => FopenFlags::FOPEN_DIRECT_IO,
    };
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        answer |= FopenFlags::FOPEN_NOFLUSH;
    }
    answer
}
