//! A database on a directory: the process that serves it, and the list of such mounts.
//!
//! Flow: look at both sides → become a process of its own → open the database → mount → serve →
//! say "ready" once the mount answers → wait for its end → bring the database to rest.

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
pub use holders::{Holder, holders, is_connected};
pub use record::{MountState, Mounted};

/// What to mount, where and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// The database.
    pub database: PathBuf,
    /// A directory.
    pub mountpoint: PathBuf,
    /// Who may look into it.
    pub access: Access,
    /// True when the mount goes when the process that serves it dies.
    pub auto_unmount: bool,
    /// True when the mount ends with the process that asked for it in the background.
    pub owned: bool,
    /// The user that every file belongs to, if not its own.
    pub uid: Option<u32>,
    /// The group that every file belongs to, if not its own.
    pub gid: Option<u32>,
    /// Where the list of mounts lies.
    pub records: Option<PathBuf>,
}

impl Request {
    /// The same, with both paths by their real names. A dead mount in the way is cleared.
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

/// The real name of a path whose last part may be a mount that does not answer.
pub fn parent_real(path: &Path) -> io::Result<PathBuf> {
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

/// Why something is not mounted.
#[derive(Debug, Error)]
pub enum MountError {
    /// The database is not there.
    #[error("cannot open the database `{}`", path.display())]
    Database {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database cannot be served.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the database stands on cannot be opened.
    #[error("cannot open `{}`, which the database stands on", path.display())]
    Base {
        /// Where.
        path: PathBuf,
        /// Why.
        source: StoreError,
    },
    /// Serving failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The mountpoint cannot be one.
    #[error("`{}` cannot be mounted on", path.display())]
    Mountpoint {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database would disappear behind its own mount.
    #[error("the database `{}` lies below the mountpoint `{}`", database.display(), mountpoint.display())]
    Covers {
        /// The database.
        database: PathBuf,
        /// The mountpoint.
        mountpoint: PathBuf,
    },
    /// The kernel has no FUSE for us.
    #[error("FUSE cannot be used here")]
    NoFuse(#[source] io::Error),
    /// The program that mounts for ordinary users is missing.
    #[error("`fusermount3` is not installed, and only root can mount without it")]
    NoHelper,
    /// Others may not be let in.
    #[error("this system does not let users open their mounts to others")]
    OthersForbidden,
    /// The mount was refused.
    #[error("cannot mount on `{}`", path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The process that serves the mount failed.
    #[error("{what}")]
    Daemon {
        /// What it said, or how it ended.
        what: String,
        /// What it would do next.
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
            Self::Covers { .. } => "keep the database outside of what it is mounted on".into(),
            Self::Mountpoint { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "make the directory first: mkdir".into()
            }
            Self::Base { .. } => "the base has to stay where it was at `fs init --base`".into(),
            Self::Store(error) => return error.hint(),
            Self::Daemon { hint, .. } => return hint.clone(),
            _ => return None,
        })
    }
}

/// The database, and what it stands on.
fn open(path: &Path) -> Result<(Store, Option<Arc<dyn Base>>), MountError> {
    let store = Store::open(path)?;
    let base = store.base().map(|base| {
        open_base(base).map_err(|source| MountError::Base { path: base.to_owned(), source })
    });
    let base = base.transpose()?;
    Ok((store, base))
}
