//! The view as a FUSE file system: kernel requests in, answers out, nothing decided.

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

/// Lets the kernel drop what it has twice. It waits for whoever reads there: no thread that answers
/// readers may call this.
fn forget(tree: &Tree, notifier: &Notifier) {
    for (id, range) in tree.held_twice() {
        let (start, length) = (range.start.cast_signed(), (range.end - range.start).cast_signed());
        // What it does not know any more, it has dropped.
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
