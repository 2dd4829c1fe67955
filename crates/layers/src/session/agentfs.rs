//! Sessions whose layers are AgentFS databases, served outside the sandbox and bind-mounted into it.
//!
//! Such a session has one database for each root. A snapshot is a copy of it, because the file is complete when nothing
//! runs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::disk;
use super::error::{SessionError, cannot};
use super::lock::{self, Lock};
use super::opened::LayerSession;
use super::record::{LayerEngine, LayerId, Root, RootKind};
use super::store::LayerSessions;
use crate::change::LayerError;
use crate::database;
use crate::mount::{self, Access, Detach, Holder, MountError, Request, table};
use crate::tree::Moved;

/// Longest wait for a daemon to close its database.
const REST: Duration = Duration::from_secs(60);
/// Longest wait for the daemon to notice that its mount is gone.
const PATIENCE: Duration = Duration::from_secs(2);

impl LayerSession {
    /// Serves root number `root` on a directory of the session until this process or the run ends. Returns that
    /// directory. The caller must have a single thread.
    pub fn serve(&self, root: usize) -> Result<PathBuf, SessionError> {
        let mountpoint = self.mountpoint(root);
        disk::private_dir(&mountpoint)?;
        let request = Request {
            database: self.top_database(self.root(root)?),
            mountpoint,
            access: Access::Owner,
            auto_unmount: true,
            owned: true,
            uid: None,
            gid: None,
            records: Some(self.daemons()),
        };
        let request = request.prepared()?;
        mount::background(&request)?;
        Ok(request.mountpoint)
    }

    /// Stops the daemons of the session's roots, including those that a killed run left, and waits until their
    /// databases are closed. Returns the processes that had them mounted in other namespaces and lost them.
    pub(crate) fn stop_serving(&self) -> Result<Vec<Holder>, SessionError> {
        let mut cut_off = Vec::new();
        for (number, root) in self.record().roots.iter().enumerate() {
            if root.kind != RootKind::Dir || self.record().engine != LayerEngine::Agentfs {
                continue;
            }
            let at = self.mountpoint(number);
            let row = table::at(&at).ok().flatten();
            if row.is_some() {
                // Processes of the sandbox may take a moment to exit.
                let idle = mount::detach(&at, Detach::Idle);
                idle.or_else(|_| mount::detach(&at, Detach::Lazy))
                    .map_err(cannot("unmount", &at))?;
            }
            cut_off.extend(self.wait_for_rest(root, row.as_ref()));
        }
        Ok(cut_off)
    }

    /// Recovers files that a killed daemon left beside a database. Then makes the layers independent of the original
    /// paths of directories that the session moved, because an apply removes these on the host, and the user may do so
    /// too.
    pub(super) fn take_in_moved(&self) -> Result<(), SessionError> {
        for root in self.databases() {
            let database = self.top_database(root);
            database::settle(&database).map_err(MountError::from)?;
            let failed = database::take_in_moved(&database);
            if let Some(moved) = failed.map_err(MountError::from)?.into_iter().next() {
                let Moved { path, from, source } = moved;
                return Err(LayerError::Moved { path, from, source }.into());
            }
        }
        Ok(())
    }

    /// Fails for a running session that still reads a moved directory from its original path in the base.
    pub(super) fn check_moved(&self) -> Result<(), SessionError> {
        for root in self.databases() {
            if database::has_moved(&self.top_database(root))? {
                return Err(SessionError::MovedLive { name: self.record().name.clone() });
            }
        }
        Ok(())
    }

    fn databases(&self) -> impl Iterator<Item = &Root> {
        let agentfs = self.record().engine == LayerEngine::Agentfs;
        self.record().roots.iter().filter(move |root| agentfs && root.kind == RootKind::Dir)
    }

    /// Waits until a database is closed. Returns processes that have its mount in another mount namespace, which the
    /// daemon cuts off.
    fn wait_for_rest(&self, root: &Root, row: Option<&table::Row>) -> Vec<Holder> {
        let (database, begun) = (self.top_database(root), Instant::now());
        let mut cut_off = None;
        while database::is_in_use(&database) && begun.elapsed() < REST {
            if cut_off.is_none() && begun.elapsed() > PATIENCE {
                let holders = row.map(|row| mount::holders(&row.device)).unwrap_or_default();
                self.end_daemon(&database);
                cut_off = Some(holders);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        cut_off.unwrap_or_default()
    }

    /// Terminates the daemon of a database. A daemon that is already closing its database continues.
    fn end_daemon(&self, database: &Path) {
        let database = database.canonicalize().unwrap_or_else(|_| database.to_owned());
        for (_, record) in mount::record::read(&self.daemons()) {
            if record.database == database
                && record.is_alive()
                && let Some(pid) = rustix::process::Pid::from_raw(record.pid)
            {
                // The daemon may have ended already.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
    }

    /// Returns the directory of the records of the session's daemons.
    fn daemons(&self) -> PathBuf {
        self.dir().join("daemons")
    }

    fn mountpoint(&self, root: usize) -> PathBuf {
        self.dir().join("mnt").join(root.to_string())
    }

    /// Returns the database that receives a root's changes.
    pub(super) fn top_database(&self, root: &Root) -> PathBuf {
        let top = root.stack.last().map(|layer| self.layers().database(layer));
        top.unwrap_or_default()
    }

    /// Copies the top layer of each root.
    pub(super) fn copies(
        &self,
        stacks: &[Vec<LayerId>],
    ) -> Result<Vec<Vec<LayerId>>, SessionError> {
        let copy =
            |stack: &Vec<LayerId>| stack.iter().map(|layer| self.layers().copy(layer)).collect();
        stacks.iter().map(copy).collect()
    }
}

impl LayerSessions {
    /// Unmounts stopped sessions whose mounts were left by a killed run and its daemon.
    pub fn clear_mounts(&self) {
        let dir = self.dir();
        for row in table::all().unwrap_or_default() {
            let session =
                row.mountpoint.strip_prefix(&dir).ok().and_then(|rest| rest.iter().next());
            let Some(session) = session.filter(|_| row.kind == table::KIND) else { continue };
            let lock = dir.join(session).join("lock");
            if lock::holder(&lock).is_some() {
                continue;
            }
            // A run that has begun meanwhile holds the lock.
            if let Ok(Some(_lock)) = Lock::try_take(&lock) {
                let _ = mount::detach(&row.mountpoint, Detach::Lazy);
            }
        }
    }
}
