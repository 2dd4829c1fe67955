//! Moved directories of an unmounted database, made independent of the base.

use std::path::Path;

use super::Database;
use super::open::connect;
use super::view::{EntrySource, TreeEntry};
use crate::change::LayerError;
use crate::store::{Store, StoreError};
use crate::tree::{Moved, Tree, open_base};

/// Copies into a database the files of the base that its moved directories show. Returns the
/// directories that still depend on the base.
pub(crate) fn take_in_moved(path: &Path) -> Result<Vec<Moved>, StoreError> {
    if !has_moved(path).unwrap_or(true) {
        return Ok(Vec::new());
    }
    let store = Store::open(path)?;
    let Some(base) = store.base().map(open_base).transpose()? else {
        return store.close().map(|()| Vec::new());
    };
    let tree = Tree::new(store, Some(base)).map_err(std::io::Error::from)?;
    let failed = tree.take_in_moved().map_err(std::io::Error::from);
    tree.close()?;
    Ok(failed?)
}

/// Returns true when a directory of the database refers to a directory of the base by path.
pub(crate) fn has_moved(path: &Path) -> Result<bool, LayerError> {
    let connection = connect(path)?;
    let sql = "SELECT EXISTS (SELECT 1 FROM sandbox_dir WHERE base NOTNULL)";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

impl Database {
    /// Rejects a moved directory whose source the base no longer has: it would look empty, and its
    /// content would count as deleted.
    pub(super) fn check_moved(&self, dir: &TreeEntry) -> Result<(), LayerError> {
        let EntrySource::Delta(ino) = dir.source else { return Ok(()) };
        match self.rows.merges.get(&ino) {
            Some(Some(from)) if dir.merge.is_none() && self.rows.base.is_some() => {
                Err(LayerError::Moved {
                    path: dir.path.clone(),
                    from: from.clone(),
                    source: std::io::ErrorKind::NotFound.into(),
                })
            }
            _ => Ok(()),
        }
    }
}
