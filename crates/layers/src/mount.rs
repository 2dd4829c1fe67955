//! Mounts of databases on directories: the process that serves a mount, and the list of mounts.
//!
//! Steps: check both paths, start a daemon, open the database, mount, serve, report "ready" once the mount answers,
//! wait for its end, close the database.

pub mod table;
pub mod record;
mod attach;
mod daemon;
mod holders;
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox_protocol::Hint;
use thiserror::Error;

use crate::fuse::ServeError;
use crate::store::{Store, StoreError};
use crate::tree::{Base, open_base};

pub use crate::fuse::Allow as Access;
pub use attach::{Detach, detach};
pub use daemon::{background, foreground};
pub(crate) use holders::is_connected;
pub use holders::{Holder, holders};
pub use record::{MountState, Mounted};

/// Request to mount a database.
#[derive(Debug, Clone)]
pub struct Request {
    /// The database.
    pub database: PathBuf,
    /// The mountpoint, a directory.
    pub mountpoint: PathBuf,
    /// Users who may access it.
    pub access: Access,
    /// True to unmount when the serving process dies.
    pub auto_unmount: bool,
    /// True to unmount when the process that requested a background mount ends.
    pub owned: bool,
    /// Owner shown for every file, if not the file's own.
    pub uid: Option<u32>,
    /// Group shown for every file, if not the file's own.
    pub gid: Option<u32>,
    /// Directory of the mount records.
    pub records: Option<PathBuf>,
}

impl Request {
    /// Resolves both paths to their canonical form. Clears a dead mount at the mountpoint.
    pub fn prepared(self) -> Result<Self, MountError> {
        let database = self
            .database
            .canonicalize()
            .map_err(|source| MountError::Database { path: self.database.clone(), source })?;
        let mountpoint = real_mountpoint(&self.mountpoint)?;
        if database.starts_with(&mountpoint) {
            return Err(MountError::Covers { database, mountpoint });
        }
        Ok(Self { database, mountpoint, ..self })
    }
}

fn real_mountpoint(path: &Path) -> Result<PathBuf, MountError> {
    let wrong = |source| MountError::Mountpoint { path: path.to_owned(), source };
    let name = parent_real(path).map_err(wrong)?;
    if record::is_dead(&name) {
        let ours = table::at(&name).ok().flatten().is_some_and(|row| row.kind == table::KIND);
        if !ours {
            return Err(wrong(io::Error::from_raw_os_error(libc::ENOTCONN)));
        }
        detach(&name, Detach::Lazy).map_err(wrong)?;
    }
    let real = path.canonicalize().map_err(wrong)?;
    if real.is_dir() { Ok(real) } else { Err(wrong(io::ErrorKind::NotADirectory.into())) }
}

/// Returns the canonical form of a path whose last component may be a mount that does not respond.
pub(crate) fn parent_real(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => {}
        done => return done,
    }
    let absolute = std::path::absolute(path)?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        _ => Ok(absolute),
    }
}

/// Error of mounting a database.
#[derive(Debug, Error)]
pub enum MountError {
    /// The database does not exist.
    #[error("cannot open the database `{}`", path.display())]
    Database {
        /// Path of the operation.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The database cannot be served.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The base of the database cannot be opened.
    #[error("cannot open `{}`, the base of the database", path.display())]
    Base {
        /// Path of the operation.
        path: PathBuf,
        /// Cause.
        source: StoreError,
    },
    /// Serving failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The path is not usable as a mountpoint.
    #[error("cannot use `{}` as a mountpoint", path.display())]
    Mountpoint {
        /// Path of the operation.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The mount would cover its own database.
    #[error("the database `{}` is below the mountpoint `{}`", database.display(), mountpoint.display())]
    Covers {
        /// The database.
        database: PathBuf,
        /// The mountpoint.
        mountpoint: PathBuf,
    },
    /// FUSE is not available.
    #[error("FUSE is not available")]
    NoFuse(#[source] io::Error),
    /// `fusermount3`, which unprivileged users need, is missing.
    #[error("`fusermount3` is not installed, and only root can mount without it")]
    NoHelper,
    /// The system does not permit mounts that other users can access.
    #[error("this system does not let users share their mounts with other users")]
    OthersForbidden,
    /// The mount failed.
    #[error("cannot mount on `{}`", path.display())]
    Refused {
        /// Path of the operation.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The daemon failed.
    #[error("{what}")]
    Daemon {
        /// Its error message, or how it ended.
        what: String,
        /// Its hint.
        hint: Option<String>,
    },
}

impl MountError {
    fn refused(at: &Path, source: io::Error) -> Self {
        Self::Refused { path: at.to_owned(), source }
    }
}

impl Hint for MountError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoFuse(_) => "as root: modprobe fuse; in a container: --device /dev/fuse".into(),
            Self::NoHelper => "install with: apt install fuse3".into(),
            Self::OthersForbidden => {
                "as root, add the line `user_allow_other` to /etc/fuse.conf, or mount without --allow-root and --system".into()
            }
            Self::Covers { .. } => "choose a mountpoint that does not contain the database".into(),
            Self::Mountpoint { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "create the directory first".into()
            }
            Self::Base { .. } => "the base must stay at the path given to `fs init --base`".into(),
            Self::Store(error) => return error.hint(),
            Self::Daemon { hint, .. } => return hint.clone(),
            _ => return None,
        })
    }
}

/// Opens the database and its base.
fn open(path: &Path) -> Result<(Store, Option<Arc<dyn Base>>), MountError> {
    let store = Store::open(path)?;
    let base = store.base().map(|base| {
        open_base(base).map_err(|source| MountError::Base { path: base.to_owned(), source })
    });
    let base = base.transpose()?;
    Ok((store, base))
}
