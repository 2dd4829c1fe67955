//! Merged view of a base and a layer as one file system; only the layer is written.
//!
//! A directory shows the names that the layer holds, then those of the base without a whiteout.
//! Files are identified by the number that programs see ([`Attr::id`]) from the first lookup until
//! the kernel forgets them. Changed inodes are written with the next commit. One lock guards all
//! state; plain files are read and written without holding it.

mod base;
mod lazy;
mod directory;
mod lower;
mod node;
mod lookup;
mod copy_up;
mod make;
mod remove;
mod rename;
mod moved;
mod attr;
mod file;
mod content;
mod range;
mod passthrough;
mod preload;
mod list;
mod xattr;
mod keep;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

pub use attr::{Attr, Change, Stamp};
pub use base::{Base, Content, Listed, Stat};
pub use directory::Directory;
pub use file::Opened;
pub(crate) use keep::PATIENCE;
pub use list::Item;
pub use lower::open_base;
pub use make::Make;
pub use moved::Moved;
pub use rename::Rename;

use crate::store::{Store, StoreError, Time};
use node::Node;

/// Inode number of the root.
pub const ROOT: u64 = 1;

/// Result with the error number for the calling program.
pub type Result<T> = std::result::Result<T, Errno>;

/// User and group of a request.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Owner shown for every file, without changing what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owner {
    /// User, if not the file's own.
    pub uid: Option<u32>,
    /// Group, if not the file's own.
    pub gid: Option<u32>,
}

/// Base with a layer over it.
#[derive(Debug)]
pub struct Tree {
    state: Mutex<State>,
    listings: list::Listings,
    /// True when copying large contents out of the database pays off.
    copies: AtomicBool,
    /// Signalled when a preload has ended.
    preloading: Condvar,
}

/// State guarded by the lock.
#[derive(Debug)]
struct State {
    store: Store,
    base: Option<Arc<dyn Base>>,
    nodes: HashMap<u64, Node>,
    /// Maps an inode of the layer to the number that programs see, where they differ.
    shown: HashMap<u64, u64>,
    /// Nodes whose inode must be written.
    dirty: Vec<u64>,
    /// Dirty nodes missing in the redo log, without contents of open files; see [`State::keep`].
    unlogged: Vec<u64>,
    /// Nodes without a name that are not recorded as orphans yet.
    orphans: Vec<u64>,
    /// Number of names removed from hard-linked files of the base.
    unlinked: HashMap<u64, u32>,
    room: keep::Room,
    /// Owner shown for all files.
    owner: Owner,
    /// Log position where the current change began, after any copy-ups it needed: they are kept.
    mark: usize,
}

impl Tree {
    /// Creates the view of a layer, with or without a base.
    pub fn new(store: Store, base: Option<Arc<dyn Base>>) -> Result<Self> {
        let mut state = State {
            unlinked: store.all_unlinked().or_errno()?,
            store,
            base,
            nodes: HashMap::new(),
            shown: HashMap::new(),
            dirty: Vec::new(),
            unlogged: Vec::new(),
            orphans: Vec::new(),
            room: keep::Room::default(),
            owner: Owner::default(),
            mark: 0,
        };
        state.load_root()?;
        Ok(Self {
            state: Mutex::new(state),
            listings: list::Listings::default(),
            copies: AtomicBool::new(false),
            preloading: Condvar::new(),
        })
    }

    /// Sets the owner shown for all files.
    pub(crate) fn show_owner(&self, owner: Owner) {
        self.lock().owner = owner;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one change. A failed change leaves nothing in the database; a successful one is logged
    /// and survives this process.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        Self::change_locked(self.lock(), change)
    }

    fn change_locked<T>(
        mut state: MutexGuard<'_, State>,
        change: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        let done = state.attempt(change)?;
        // Only a full disk makes this fail. The change then stays in memory, where space was
        // reserved for it, and further changes are refused until it is logged.
        let _ = state.keep();
        Ok(done)
    }

    /// Runs a change of an open file's content, which is logged when the file is closed.
    fn change_content<T>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        self.lock().attempt(change)
    }
}

impl State {
    fn attempt<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.make_room()?;
        self.mark = self.store.mark();
        let result = change(self);
        if result.is_err() {
            self.store.roll_back(self.mark).or_errno()?;
        }
        result
    }

    fn node(&self, id: u64) -> Result<&Node> {
        self.nodes.get(&id).ok_or(Errno::STALE)
    }

    fn node_mut(&mut self, id: u64) -> Result<&mut Node> {
        self.nodes.get_mut(&id).ok_or(Errno::STALE)
    }

    /// Returns the node and marks its inode as changed.
    fn touch(&mut self, id: u64) -> Result<&mut Node> {
        if self.node(id)?.delta.is_some() && self.unlogged.last() != Some(&id) {
            self.unlogged.push(id);
        }
        self.touch_content(id)
    }

    /// Returns the node and marks its content, length and times as changed.
    fn touch_content(&mut self, id: u64) -> Result<&mut Node> {
        let node = self.nodes.get_mut(&id).ok_or(Errno::STALE)?;
        if !node.dirty && node.delta.is_some() {
            node.dirty = true;
            self.dirty.push(id);
        }
        Ok(node)
    }

    /// Updates times and link count of a directory that gained or lost an entry.
    fn touch_dir(&mut self, id: u64, subdirs: i32) -> Result<()> {
        let now = Time::now();
        let inode = &mut self.touch(id)?.inode;
        (inode.mtime, inode.ctime) = (now, now);
        // File systems that do not count subdirectories report 1.
        if inode.nlink != 1 {
            inode.nlink = inode.nlink.saturating_add_signed(subdirs);
        }
        Ok(())
    }

    fn base(&self) -> Result<Arc<dyn Base>> {
        self.base.clone().ok_or(Errno::IO)
    }
}

/// Conversion of errors into error numbers.
trait OrErrno<T> {
    fn or_errno(self) -> Result<T>;
}

impl<T> OrErrno<T> for std::result::Result<T, StoreError> {
    fn or_errno(self) -> Result<T> {
        self.map_err(|error| error.errno())
    }
}

impl<T> OrErrno<T> for io::Result<T> {
    fn or_errno(self) -> Result<T> {
        self.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}
