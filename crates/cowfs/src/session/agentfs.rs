//! Sessions whose layers are AgentFS databases: served outside of the sandbox, and bound into it.
//!
//! Such a session has one database for each root. A snapshot is a copy of it: the file is at rest
//! when nothing runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::disk;
use super::error::{SessionError, cannot};
use super::record::{LayerId, Root, RootKind};
use super::store::Session;
use crate::database;
use crate::mount::{self, Access, Detach, Request, table};

/// How long a database may take to come to rest.
const REST: Duration = Duration::from_secs(60);

impl Session {
    /// Serves root number `root` on a directory of the session, and returns that directory. The
    /// caller must have a single thread.
    pub fn serve(&self, root: usize, records: Option<PathBuf>) -> Result<PathBuf, SessionError> {
        let mountpoint = self.mountpoint(root);
        disk::private_dir(&mountpoint)?;
        let request = Request {
            database: self.top_database(self.root(root)?),
            mountpoint,
            access: Access::Owner,
            auto_unmount: true,
            uid: None,
            gid: None,
            records,
        };
        let request = request.prepared()?;
        mount::background(&request)?;
        Ok(request.mountpoint)
    }

    /// Ends what serves the session's roots, also what a killed run left, and waits until their
    /// databases are at rest.
    pub fn stop_serving(&self) -> Result<(), SessionError> {
        for (number, root) in self.record().roots.iter().enumerate() {
            let at = self.mountpoint(number);
            if root.kind != RootKind::Dir || table::at(&at).ok().flatten().is_none() {
                continue;
            }
            // Processes of the sandbox may take a moment to be gone.
            let idle = mount::detach(&at, Detach::Idle);
            idle.or_else(|_| mount::detach(&at, Detach::Lazy)).map_err(cannot("unmount", &at))?;
            self.wait_for_rest(root);
        }
        Ok(())
    }

    fn wait_for_rest(&self, root: &Root) {
        let (database, end) = (self.top_database(root), Instant::now() + REST);
        while database::is_in_use(&database) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn mountpoint(&self, root: usize) -> PathBuf {
        self.dir().join("mnt").join(root.to_string())
    }

    /// The database that a root's changes go to.
    pub(super) fn top_database(&self, root: &Root) -> PathBuf {
        let top = root.stack.last().map(|layer| self.layers().database(layer));
        top.unwrap_or_default()
    }

    /// Copies of each root's top layer.
    pub(super) fn copies(
        &self,
        stacks: &[Vec<LayerId>],
    ) -> Result<Vec<Vec<LayerId>>, SessionError> {
        let copy =
            |stack: &Vec<LayerId>| stack.iter().map(|layer| self.layers().copy(layer)).collect();
        stacks.iter().map(copy).collect()
    }
}

/// Copies the directory of a layer: a database at rest, or a single file.
pub(super) fn copy_layer(from: &Path, to: &Path) -> Result<(), SessionError> {
    for entry in fs::read_dir(from).map_err(cannot("list", from))? {
        let entry = entry.map_err(cannot("list", from))?;
        let place = to.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            fs::create_dir(&place).map_err(cannot("make", &place))?;
            copy_layer(&entry.path(), &place)?;
        } else {
            fs::copy(entry.path(), &place).map_err(cannot("copy", &entry.path()))?;
        }
    }
    Ok(())
}
