//! Data path of an open file: through the kernel's page cache, directly to this process, or, as root, directly to a
//! backing file (passthrough).
//!
//! The kernel requires that all passthrough openings of a file use the same backing file, and refuses page cache
//! openings beside them. Direct openings can be mixed with both: fuse-passthrough.rst, fuse-io.rst.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fuser::{BackingId, FileHandle};

use crate::tree::Tree;

/// Path that the reads and writes of an open file take. The file handle holds its number.
#[derive(Debug, Clone)]
pub(super) enum OpenMode {
    /// Through the kernel's page cache.
    Cached,
    /// Directly to this process, without the page cache.
    Direct,
    /// Directly to the backing file, without this process.
    Passthrough(Arc<BackingId>),
}

impl OpenMode {
    pub(super) fn handle(&self) -> FileHandle {
        FileHandle(match self {
            Self::Cached => 0,
            Self::Direct => 1,
            Self::Passthrough(_) => 2,
        })
    }
}

/// Open files and their modes.
#[derive(Debug, Default)]
pub(super) struct Backing {
    /// True when the kernel supports and permits passthrough.
    pub(super) passthrough: AtomicBool,
    /// True when direct I/O keeps the page cache of other openings coherent (Linux 6.6,
    /// `FUSE_DIRECT_IO_ALLOW_MMAP`).
    pub(super) direct: AtomicBool,
    open: Mutex<HashMap<u64, Open>>,
}

#[derive(Debug, Default)]
struct Open {
    cached: u32,
    passthrough: u32,
    id: Option<Arc<BackingId>>,
}

impl Backing {
    /// Chooses the mode of a newly opened file. `register` passes a plain file to the kernel.
    pub(super) fn choose(
        &self,
        tree: &Tree,
        id: u64,
        flags: i32,
        register: impl FnOnce(&std::fs::File) -> std::io::Result<BackingId>,
    ) -> OpenMode {
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = all.entry(id).or_default();
        let mode = if let Some(backing) = self.backing_of(tree, id, writes, open, register) {
            open.passthrough += 1;
            tree.set_passthrough(id, true);
            OpenMode::Passthrough(backing)
        } else if open.passthrough > 0 || self.is_direct(flags) {
            OpenMode::Direct
        } else {
            open.cached += 1;
            OpenMode::Cached
        };
        if open.cached == 0 && open.passthrough == 0 {
            all.remove(&id);
        }
        mode
    }

    /// Returns the backing file for passthrough. A file that is open through the page cache gets none, because the
    /// kernel refuses to mix the two.
    fn backing_of(
        &self,
        tree: &Tree,
        id: u64,
        writes: bool,
        open: &mut Open,
        register: impl FnOnce(&std::fs::File) -> std::io::Result<BackingId>,
    ) -> Option<Arc<BackingId>> {
        if open.cached > 0 || !self.passthrough.load(Ordering::Relaxed) {
            return None;
        }
        let file = tree.plain_file(id, writes)?;
        if open.id.is_none() {
            if let Ok(backing) = register(&file) {
                open.id = Some(Arc::new(backing));
            } else {
                // Not root, or a file system that cannot be stacked on.
                self.passthrough.store(false, Ordering::Relaxed);
                tree.keep_copies(false);
            }
        }
        open.id.clone()
    }

    /// Returns true when a file should bypass the page cache. A write-only file cannot be mapped, and its writer has no
    /// use for the cache. Bypassing it saves a copy and the kernel's request for `security.capability`.
    fn is_direct(&self, flags: i32) -> bool {
        self.direct.load(Ordering::Relaxed) && flags & libc::O_ACCMODE == libc::O_WRONLY
    }

    /// Records that an open file was closed.
    pub(super) fn close(&self, tree: &Tree, id: u64, handle: FileHandle) {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = all.get_mut(&id) else { return };
        match handle.0 {
            0 => open.cached = open.cached.saturating_sub(1),
            2 => open.passthrough = open.passthrough.saturating_sub(1),
            _ => {}
        }
        if open.passthrough == 0 && open.id.take().is_some() {
            tree.set_passthrough(id, false);
        }
        if open.cached == 0 && open.passthrough == 0 {
            all.remove(&id);
        }
    }
}

/// Returns a function that registers a plain file with the kernel.
pub(super) fn register(
    reply: &fuser::ReplyOpen,
) -> impl FnOnce(&std::fs::File) -> std::io::Result<BackingId> {
    |file| reply.open_backing(file.as_fd())
}
