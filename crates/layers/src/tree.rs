//! The view: a base and a layer, read as one file system and written to the layer alone.
//!
//! A directory shows the names that the layer holds, then those of the base that are not gone. Files
//! are known by the number that they show ([`Attr::id`]) from the first lookup until the kernel
//! forgets them; changed inodes are written with the next commit. One lock guards it all: content
//! that lies in plain files is read and written outside of it.

mod base;
mod later;
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
mod past;
mod feed;
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

/// The number of the root.
pub const ROOT: u64 = 1;

/// The error number that the program gets.
pub type Result<T> = std::result::Result<T, Errno>;

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Who is shown as the owner of every file. What is stored does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owner {
    /// User, if not the file's own.
    pub uid: Option<u32>,
    /// Group, if not the file's own.
    pub gid: Option<u32>,
}

/// A base with a layer over it.
#[derive(Debug)]
pub struct Tree {
    state: Mutex<State>,
    listings: list::Listings,
    /// True when copies of what the database holds are worth making.
    copies: AtomicBool,
    /// Signalled when the kernel has been given a file.
    feeding: Condvar,
}

/// What the lock guards.
#[derive(Debug)]
struct State {
    store: Store,
    base: Option<Arc<dyn Base>>,
    nodes: HashMap<u64, Node>,
    /// From an inode of the layer to the number it shows, where they differ.
    shown: HashMap<u64, u64>,
    /// Nodes whose inode must be written.
    dirty: Vec<u64>,
    /// Those of them that the redo log lacks; the content of open files apart, see [`State::keep`].
    unlogged: Vec<u64>,
    /// Nodes without a name that the database does not know of yet.
    orphans: Vec<u64>,
    /// Names that were taken from files of the base with several.
    unlinked: HashMap<u64, u32>,
    room: keep::Room,
    /// Who is shown as the owner of everything, if not each file's own.
    owner: Owner,
    /// Where in the log the running change began, copy-ups that it needed left out: they stay.
    mark: usize,
}

impl Tree {
    /// The view of a layer over a base, or of a layer by itself.
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
            feeding: Condvar::new(),
        })
    }

    /// Shows everything as somebody's.
    pub(crate) fn show_owner(&self, owner: Owner) {
        self.lock().owner = owner;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one change. What fails half-way leaves nothing in the database; what is answered
    /// outlives this process.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        Self::change_locked(self.lock(), change)
    }

    fn change_locked<T>(
        mut state: MutexGuard<'_, State>,
        change: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        let done = state.attempt(change)?;
        // Only a full disk fails here. Then it is in memory, as it was promised room for, and
        // nothing else is accepted until it can be kept.
        let _ = state.keep();
        Ok(done)
    }

    /// The same for the content of an open file, which is kept when that is closed.
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
            self.store.take_back(self.mark).or_errno()?;
        }
        result
    }

    fn node(&self, id: u64) -> Result<&Node> {
        self.nodes.get(&id).ok_or(Errno::STALE)
    }

    fn node_mut(&mut self, id: u64) -> Result<&mut Node> {
        self.nodes.get_mut(&id).ok_or(Errno::STALE)
    }

    /// The node, whose inode is about to change.
    fn touch(&mut self, id: u64) -> Result<&mut Node> {
        if self.node(id)?.delta.is_some() && self.unlogged.last() != Some(&id) {
            self.unlogged.push(id);
        }
        self.touch_content(id)
    }

    /// The node, whose content is about to change, and with it length and times.
    fn touch_content(&mut self, id: u64) -> Result<&mut Node> {
        let node = self.nodes.get_mut(&id).ok_or(Errno::STALE)?;
        if !node.dirty && node.delta.is_some() {
            node.dirty = true;
            self.dirty.push(id);
        }
        Ok(node)
    }

    /// A directory got or lost an entry.
    fn touch_dir(&mut self, id: u64, subdirs: i32) -> Result<()> {
        let now = Time::now();
        let inode = &mut self.touch(id)?.inode;
        (inode.mtime, inode.ctime) = (now, now);
        // A base that does not count subdirectories says 1.
        if inode.nlink != 1 {
            inode.nlink = inode.nlink.saturating_add_signed(subdirs);
        }
        Ok(())
    }

    fn base(&self) -> Result<Arc<dyn Base>> {
        self.base.clone().ok_or(Errno::IO)
    }
}

/// Turns errors of the layers below into numbers.
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
