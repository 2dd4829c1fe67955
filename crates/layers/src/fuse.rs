//! FUSE server of the merged view. It translates kernel requests and replies, and makes no decisions.

mod convert;
mod backing;
mod open;
mod adapter;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use fuser::{Config, INodeNo, MountOption, Notifier, SessionACL};
use thiserror::Error;

use crate::store::{Store, StoreError};
use crate::tree::{Base, Owner, PATIENCE, Tree};
use open::Adapter;

/// Users who may access the mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Allow {
    /// The user who mounted it.
    #[default]
    Owner,
    /// That user and root.
    Root,
    /// All users, subject to the file modes.
    All,
}

/// Mount options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Users who may access it.
    pub allow: Allow,
    /// True to unmount when this process ends in any way. Needs `fusermount3` and access for more than the owner.
    pub auto_unmount: bool,
    /// Source shown by mount(8).
    pub source: String,
    /// Number of requests handled in parallel.
    pub threads: usize,
    /// Owner shown for every file.
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

/// Error of serving a mount.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Mounting failed.
    #[error("cannot mount at `{mountpoint}`")]
    Mount {
        /// Mountpoint.
        mountpoint: String,
        /// Cause.
        source: io::Error,
    },
    /// The database failed.
    #[error("cannot use the database")]
    Store(#[from] StoreError),
    /// The connection to the kernel broke.
    #[error("the mount broke")]
    Broken(#[source] io::Error),
}

/// Mounts the view of `store` over `base` at `mountpoint` and serves it until it is unmounted, which closes the
/// database. Calls `ready` once the mount is in place.
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

/// Serves a connection that is already mounted.
pub(crate) fn serve_on(
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
    let notifier = Arc::new(OnceLock::new());
    let served =
        begin(Adapter::new(Arc::clone(&tree), Arc::clone(&notifier))).and_then(|session| {
            let _ = notifier.set(session.notifier());
            run(&tree, session, ready)
        });
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
    let notifier = session.notifier();
    std::thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                std::thread::park_timeout(PATIENCE);
                tree.tick();
                forget(tree, &notifier);
            }
        });
        ready();
        let served = session.run().map_err(ServeError::Broken);
        over.store(true, Ordering::Release);
        keeper.thread().unpark();
        served
    })
}

/// Invalidates page cache ranges that the kernel holds twice (`FUSE_NOTIFY_INVAL_INODE`). The kernel waits for readers
/// of these pages, so a thread that answers reads must not call this.
fn forget(tree: &Tree, notifier: &Notifier) {
    for (id, range) in tree.held_twice() {
        let (start, length) = (range.start.cast_signed(), (range.end - range.start).cast_signed());
        // The kernel may have forgotten the inode already.
        let _ = notifier.inval_inode(INodeNo(id), start, length);
    }
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
