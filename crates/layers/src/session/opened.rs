//! Opened sessions, with record, lock and layers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sandbox_linux::replace::Durability;

use super::base::BaseRecord;
use super::disk;
use super::error::{SessionError, cannot};
use super::layers::{self, Layers};
use super::lock::{self, Lock};
use super::record::{FORMAT, Head, LayerEngine, LayerId, Root, RootKind, SessionRecord};
use crate::change::{Layer, LayerError};
use crate::database::Database;
use crate::mount::Holder;
use crate::overlay::Stack;

/// Current use of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// A process with this PID runs in it.
    Running(i32),
    /// The container of the session with this ID uses it.
    Held(String),
    /// Not in use.
    Stopped,
    /// Not in use, and the last command was killed.
    Killed,
}

/// Reads the record of a session. Fails if another version wrote it.
pub(super) fn read_record(path: &Path) -> Result<SessionRecord, SessionError> {
    let text = fs::read(path).map_err(cannot("read", path))?;
    let damaged = |source| SessionError::Record { path: path.to_path_buf(), source };
    if let Ok(Head { name, format, .. }) = serde_json::from_slice(&text)
        && format != FORMAT
    {
        return Err(SessionError::Version { name, found: format, known: FORMAT });
    }
    let record: SessionRecord = serde_json::from_slice(&text).map_err(damaged)?;
    if let Some(layer) = record.layers().find(|layer| !layer.is_plain()) {
        let problem = format!("invalid layer `{}`", layer.as_str());
        return Err(damaged(serde::de::Error::custom(problem)));
    }
    Ok(record)
}

/// Session.
#[derive(Debug, Clone)]
pub struct LayerSession {
    dir: PathBuf,
    layers: Layers,
    record: SessionRecord,
    cut_off: Option<Box<CutOff>>,
}

/// Processes that lost the session's mount at the end of its run, usually none.
#[derive(Debug, Clone)]
struct CutOff(Vec<Holder>);

impl LayerSession {
    pub(super) fn new(dir: PathBuf, layers: Layers, record: SessionRecord) -> Self {
        Self { dir, layers, record, cut_off: None }
    }

    /// Returns processes in other mount namespaces that had the session mounted when its run ended and lost it.
    pub fn cut_off(&self) -> &[Holder] {
        self.cut_off.as_deref().map_or(&[], |cut_off| &cut_off.0)
    }

    pub(super) fn set_cut_off(&mut self, holders: Vec<Holder>) {
        self.cut_off = (!holders.is_empty()).then(|| Box::new(CutOff(holders)));
    }

    /// Returns the record as it was when the session was opened or last changed through this value.
    pub fn record(&self) -> &SessionRecord {
        &self.record
    }

    pub(super) fn layers(&self) -> &Layers {
        &self.layers
    }

    /// Returns its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the current use of the session.
    pub fn state(&self) -> RunState {
        match (lock::holder(&self.dir.join("lock")), &self.record.holder) {
            (_, Some(holder)) => RunState::Held(holder.clone()),
            (Some(pid), None) => RunState::Running(pid),
            (None, None) if self.record.runs.last().is_some_and(|run| run.ended.is_none()) => {
                RunState::Killed
            }
            (None, None) => RunState::Stopped,
        }
    }

    /// Locks the session, for a run or an apply.
    pub fn lock(&self) -> Result<Lock, SessionError> {
        self.lock_for(None)
    }

    /// Locks the session, which this holder may use.
    pub(super) fn lock_for(&self, holder: Option<&str>) -> Result<Lock, SessionError> {
        let path = self.dir.join("lock");
        let name = || self.record.name.clone();
        let lock = Lock::try_take(&path)?.ok_or_else(|| SessionError::Busy {
            name: name(),
            pid: lock::holder(&path).filter(|pid| *pid > 0),
        })?;
        // Read the record again, because another process may have changed it since.
        match read_record(&self.dir.join("session.json"))?.holder {
            Some(other) if Some(other.as_str()) != holder => {
                Err(SessionError::Held { name: name() })
            }
            _ => Ok(lock),
        }
    }

    /// Changes the record under a lock, because a run and another command may do so at the same time.
    pub fn update(&mut self, change: impl FnOnce(&mut SessionRecord)) -> Result<(), SessionError> {
        let _writing = Lock::take(&self.dir.join("record.lock"))?;
        self.record = read_record(&self.dir.join("session.json"))?;
        change(&mut self.record);
        self.write(Durability::Content)
    }

    pub(super) fn write(&self, when: Durability) -> Result<(), SessionError> {
        let path = self.dir.join("session.json");
        let bytes = serde_json::to_vec_pretty(&self.record)
            .map_err(|source| SessionError::Record { path: path.clone(), source })?;
        disk::replace(&path, &bytes, when)
    }

    pub(super) fn root(&self, root: usize) -> Result<&Root, SessionError> {
        let name = || self.record.name.clone();
        self.record.roots.get(root).ok_or_else(|| SessionError::Root { name: name(), root })
    }

    /// Opens the layer of root number `root`.
    pub fn layer(&self, root: usize) -> Result<Box<dyn Layer>, SessionError> {
        let root = self.root(root)?;
        if (self.record.engine, root.kind) == (LayerEngine::Agentfs, RootKind::Dir) {
            return Ok(Box::new(Database::open(&self.top_database(root))?));
        }
        let uppers = self.uppers(root);
        let stack = Stack::open(&uppers, root.base());
        let path = uppers.last().cloned().unwrap_or_default();
        Ok(Box::new(stack.map_err(|source| LayerError::Io { path, source })?))
    }

    /// Returns true when nothing was ever changed in it.
    pub fn is_untouched(&self) -> bool {
        let is_empty = |layer: &LayerId| {
            fs::read_dir(self.layers.upper(layer)).is_ok_and(|mut entries| entries.next().is_none())
        };
        let files = self.record.roots.iter().any(|root| root.kind == RootKind::File);
        self.record.engine == LayerEngine::Overlay && !files && self.record.layers().all(is_empty)
    }

    /// Discards all changes. Each root continues with one empty layer, and snapshots stay.
    pub fn clear(&mut self, _lock: &Lock) -> Result<(), SessionError> {
        let _guard = self.layers.guard()?;
        let mut stacks = Vec::new();
        for root in &self.record.roots {
            stacks.push(vec![self.layers.create(&root.path, root.kind, self.record.engine)?]);
        }
        self.update(|record| {
            for (root, stack) in record.roots.iter_mut().zip(stacks) {
                root.stack = stack;
            }
        })?;
        layers::remove(&self.dir.join("base"))
    }

    /// Returns the directories of a root's layers, the lowest first.
    pub(super) fn uppers(&self, root: &Root) -> Vec<PathBuf> {
        root.stack.iter().map(|layer| self.layers.upper(layer)).collect()
    }

    /// Returns the disk usage of the session's layers in bytes, including shared ones.
    pub fn size(&self) -> u64 {
        let layers: BTreeSet<&LayerId> = self.record.layers().collect();
        layers.into_iter().map(|layer| layers::size(&self.layers.dir(layer))).sum()
    }

    /// Returns the directory on the host that the paths of root number `root` are relative to.
    pub(crate) fn base_dir(&self, root: usize) -> Result<&Path, SessionError> {
        Ok(self.root(root)?.base())
    }

    /// Returns the record of the base of root number `root`.
    pub(crate) fn base_record(&self, root: usize) -> Result<BaseRecord, SessionError> {
        let mut record = self.recorded(root)?;
        self.recover(root, &mut record)?;
        Ok(record)
    }

    /// Reads the record of the base of root number `root` from the disk.
    pub(super) fn recorded(&self, root: usize) -> Result<BaseRecord, SessionError> {
        self.root(root)?;
        BaseRecord::read(&self.dir.join("base"), root)
    }

    /// Writes the record of the base of root number `root`.
    pub(crate) fn save_base_record(
        &self,
        root: usize,
        record: &BaseRecord,
    ) -> Result<(), SessionError> {
        self.root(root)?;
        record.write(root)
    }

    /// Returns the directory of the journals, one for each apply.
    pub(crate) fn applied_dir(&self) -> PathBuf {
        self.dir.join("applied")
    }
}
