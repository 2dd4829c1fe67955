//! Read access to an AgentFS database: its layer, the merged tree and the tool calls.
//!
//! It may be mounted at the same time: readers see committed changes. It may also be damaged or
//! malicious: every number and name is checked when it is read, nothing is walked twice, and
//! inconsistent data is an error.

mod open;
pub(crate) mod create;
mod rows;
mod base;
pub(crate) mod content;
mod view;
mod entry;
mod layer;
mod moved;
mod history;
pub mod check;
mod collect;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

pub use collect::{Collected, collect, settle};
pub(crate) use create::CHUNK;
pub(crate) use create::is_in_use;
pub use create::{CreateError, InUse, Tables, check_unused, clear, create, remove, replace};
pub use entry::EntryReport;
pub use history::Call;
pub(crate) use moved::{has_moved, take_in_moved};
pub use open::connect;
pub(crate) use open::{is_locked, loose_dir};
pub use rows::Inode;
pub use view::{EntrySource, TreeEntry};

use crate::change::LayerError;
use base::Base;
pub(crate) use base::{stat_at, stat_of};
use rows::Rows;
pub(crate) use rows::chunk_size;

/// AgentFS database open for reading.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    connection: Arc<Mutex<Connection>>,
    rows: Rows,
    base: Base,
    /// Inode numbers of files that were deleted or moved from the base, computed on first use.
    gone: std::sync::OnceLock<std::collections::HashSet<u64>>,
    /// Directories by path, so that lookups in deep ones need not start at the root.
    dirs: Mutex<HashMap<PathBuf, TreeEntry>>,
}

impl Database {
    /// Opens a database. All later reads see the state at this moment.
    pub fn open(path: &Path) -> Result<Self, LayerError> {
        Self::open_above(path, 0)
    }

    /// Opens a database that is the base of `depth` others.
    fn open_above(path: &Path, depth: usize) -> Result<Self, LayerError> {
        let connection = connect(path)?;
        connection.execute_batch("BEGIN")?;
        let rows = Rows::load(&connection)?;
        let base = match &rows.base {
            Some(base) => Base::open(base, depth)?,
            None => Base::Nothing,
        };
        let (path, connection) = (path.to_owned(), Arc::new(Mutex::new(connection)));
        let (gone, dirs) = (std::sync::OnceLock::new(), Mutex::default());
        Ok(Self { path, connection, rows, base, gone, dirs })
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the base, if there is one.
    pub fn base(&self) -> Option<&Path> {
        self.rows.base.as_deref()
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates an error for inconsistent data.
pub(crate) fn damaged(what: impl Into<String>) -> LayerError {
    LayerError::Damaged { what: what.into() }
}
