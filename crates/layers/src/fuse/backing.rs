//! Which way the content of an open file goes: through the kernel's cache, straight to us, or, as
//! root, past us to a plain file.
//!
//! The kernel wants all openings of a file that go past us to name one plain file, and none beside
//! them to use its cache; an opening that comes straight to us goes with both.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fuser::{BackingId, FileHandle};

use crate::tree::Tree;

/// The way of one opening; its number stands in the file handle.
#[derive(Debug, Clone)]
pub(super) enum OpenMode {
    /// Through the kernel's cache.
    Cached,
    /// Straight to us.
    Direct,
    /// Past us.
    Past(Arc<BackingId>),
}

impl OpenMode {
    pub(super) fn handle(&self) -> FileHandle {
        FileHandle(match self {
            Self::Cached => 0,
            Self::Direct => 1,
            Self::Past(_) => 2,
        })
    }
}

/// The files that are open, and their ways.
#[derive(Debug, Default)]
pub(super) struct Backing {
    /// True when the kernel can do it, and lets us.
    pub(super) past: AtomicBool,
    /// True when what comes straight to us keeps the cache of others true: Linux 6.6.
    pub(super) direct: AtomicBool,
    open: Mutex<HashMap<u64, Open>>,
}

#[derive(Debug, Default)]
struct Open {
    cached: u32,
    past: u32,
    id: Option<Arc<BackingId>>,
}

impl Backing {
    /// Chooses the way for a new opening. `register` hands a plain file to the kernel.
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
        let way = if let Some(backing) = self.past(tree, id, writes, open, register) {
            open.past += 1;
            tree.set_past(id, true);
            OpenMode::Past(backing)
        } else if open.past > 0 || self.is_direct(flags) {
            OpenMode::Direct
        } else {
            open.cached += 1;
            OpenMode::Cached
        };
        if open.cached == 0 && open.past == 0 {
            all.remove(&id);
        }
        way
    }

    fn past(
        &self,
        tree: &Tree,
        id: u64,
        writes: bool,
        open: &mut Open,
        register: impl FnOnce(&std::fs::File) -> std::io::Result<BackingId>,
    ) -> Option<Arc<BackingId>> {
        if open.cached > 0 || !self.past.load(Ordering::Relaxed) {
            return None;
        }
        let file = tree.plain_file(id, writes)?;
        if open.id.is_none() {
            if let Ok(backing) = register(&file) {
                open.id = Some(Arc::new(backing));
            } else {
                // Not root, or a file system that cannot be stacked on.
                self.past.store(false, Ordering::Relaxed);
                tree.keep_copies(false);
            }
        }
        open.id.clone()
    }

    /// What is only written cannot be mapped, and its cache would be of no use to its writer: going
    /// straight saves a copy, and the question for capabilities that the kernel asks otherwise.
    fn is_direct(&self, flags: i32) -> bool {
        self.direct.load(Ordering::Relaxed) && flags & libc::O_ACCMODE == libc::O_WRONLY
    }

    /// An opening has ended.
    pub(super) fn close(&self, tree: &Tree, id: u64, handle: FileHandle) {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = all.get_mut(&id) else { return };
        match handle.0 {
            0 => open.cached = open.cached.saturating_sub(1),
            2 => open.past = open.past.saturating_sub(1),
            _ => {}
        }
        if open.past == 0 && open.id.take().is_some() {
            tree.set_past(id, false);
        }
        if open.cached == 0 && open.past == 0 {
            all.remove(&id);
        }
    }
}

/// Hands a plain file to the kernel.
pub(super) fn register(
    reply: &fuser::ReplyOpen,
) -> impl FnOnce(&std::fs::File) -> std::io::Result<BackingId> {
    |file| reply.open_backing(file.as_fd())
}
