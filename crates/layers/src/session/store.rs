//! All sessions of a user, and one of them open.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_linux::replace::Durability;

use super::base::BaseRecord;
use super::disk;
use super::error::{SessionError, cannot};
use super::find::{self, Selector};
use super::layers::{self, Layers};
use super::lock::{self, Lock};
use super::record::{Engine, FORMAT, Head, LayerId, Record, Root, RootKind, Unusable};
use crate::change::{Layer, LayerError};
use crate::database::Database;
use crate::mount::Holder;
use crate::overlay::Stack;

/// The sessions of a user.
#[derive(Debug, Clone)]
pub struct Sessions {
    data: PathBuf,
    layers: Layers,
}

/// What a new session is to be.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// What the user calls it; nothing for a name after the project.
    pub name: Option<String>,
    /// The working directory, absolute and free of symlinks.
    pub project: PathBuf,
    /// Who makes its layers.
    pub engine: Engine,
    /// The places whose changes it keeps, absolute and free of symlinks.
    pub roots: Vec<(PathBuf, RootKind)>,
}

/// A session, or its directory and why it cannot be read.
type Opened = Result<Session, (PathBuf, SessionError)>;

/// Whether something runs in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// By this process.
    Running(i32),
    /// In a container of the session with this id.
    Held(String),
    /// Nothing does.
    Stopped,
    /// Nothing does, and the last command did not come to an end of its own.
    Killed,
}

impl Sessions {
    /// The sessions below agent-sandbox's data directory. Nothing is made until it is needed.
    pub fn at(data: impl Into<PathBuf>) -> Self {
        let data = data.into();
        Self { layers: Layers::at(&data), data }
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.data.join("sessions")
    }

    pub(super) fn guard(&self) -> Result<Lock, SessionError> {
        self.layers.guard()
    }

    /// Makes a session.
    pub fn create(&self, new: NewSession) -> Result<Session, SessionError> {
        let _guard = self.guard()?;
        let name = self.free_name(new.name, &new.project)?;
        let mut roots = Vec::new();
        for (path, kind) in new.roots {
            let stack = vec![self.layers.create(&path, kind, new.engine)?];
            roots.push(Root { path, kind, stack });
        }
        let record = Record {
            format: FORMAT,
            id: disk::unique()?,
            name,
            project: new.project,
            engine: new.engine,
            created: sandbox_linux::clock::now(),
            roots,
            runs: Vec::new(),
            snapshots: Vec::new(),
            holder: None,
            parent: None,
        };
        self.add(record)
    }

    /// A name that is free in its project.
    pub(super) fn free_name(
        &self,
        name: Option<String>,
        project: &Path,
    ) -> Result<String, SessionError> {
        let Some(name) = name else { return Ok(find::default_name(project, &self.list()?)) };
        if !find::is_name(&name) {
            return Err(SessionError::Name(name));
        }
        if self.of(project, &name)?.is_some() { Err(SessionError::Taken(name)) } else { Ok(name) }
    }

    /// Puts a new session on record.
    pub(super) fn add(&self, record: Record) -> Result<Session, SessionError> {
        let dir = self.dir().join(&record.id);
        disk::private_dir(&dir)?;
        let session = Session { dir, layers: self.layers.clone(), record, cut_off: None };
        // A new session means nothing before its first run is on record.
        session.write(Durability::Cached)?;
        Ok(session)
    }

    /// The session that is meant.
    pub fn find(&self, selector: &Selector) -> Result<Session, SessionError> {
        let (sessions, unusable) = self.sorted()?;
        find::choose(sessions, unusable, selector)
    }

    /// The session of exactly this project and name, to go on with. A record that cannot be read, and
    /// may be the one of this name, is an error: a second session would begin on an empty layer.
    pub fn of(&self, project: &Path, name: &str) -> Result<Option<Session>, SessionError> {
        let (sessions, unusable) = self.sorted()?;
        let same =
            |session: &Session| session.record.name == name && session.record.project == project;
        if let Some(session) = sessions.into_iter().find(same) {
            return Ok(Some(session));
        }
        let same = |head: &Head| head.name == name && head.project == project;
        let blocking = unusable.into_iter().find(|one| one.head.as_ref().is_none_or(same));
        blocking.map_or(Ok(None), |one| Err(one.error))
    }

    /// Sessions that can be used, and records that cannot.
    fn sorted(&self) -> Result<(Vec<Session>, Vec<Unusable>), SessionError> {
        let (mut sessions, mut unusable) = (Vec::new(), Vec::new());
        for opened in self.all()? {
            match opened {
                Ok(session) => sessions.push(session),
                Err((dir, error)) => {
                    let file = dir.join("session.json");
                    // A directory without a record is what is left of a session.
                    if file.try_exists().unwrap_or(true) {
                        unusable.push(Unusable { head: Head::read(&file), dir, error });
                    }
                }
            }
        }
        Ok((sessions, unusable))
    }

    /// Every session that can be read, the oldest first.
    pub fn list(&self) -> Result<Vec<Session>, SessionError> {
        Ok(self.all()?.into_iter().filter_map(Result::ok).collect())
    }

    /// Directories of sessions whose record cannot be read, and why.
    pub fn broken(&self) -> Result<Vec<(PathBuf, SessionError)>, SessionError> {
        Ok(self.all()?.into_iter().filter_map(Result::err).collect())
    }

    fn all(&self) -> Result<Vec<Opened>, SessionError> {
        let dir = self.dir();
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(cannot("list", &dir))?,
        };
        let mut dirs: Vec<PathBuf> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect();
        dirs.sort();
        Ok(dirs.into_iter().map(|dir| self.open(&dir).map_err(|error| (dir, error))).collect())
    }

    fn open(&self, dir: &Path) -> Result<Session, SessionError> {
        let record = read_record(&dir.join("session.json"))?;
        let (dir, layers) = (dir.to_path_buf(), self.layers.clone());
        Ok(Session { dir, layers, record, cut_off: None })
    }

    /// Removes a session and every layer that no other session names. It must not be in use.
    pub fn remove(&self, session: &Session, lock: Lock) -> Result<(), SessionError> {
        let _guard = self.guard()?;
        session.tidy()?;
        // Without its record a session is gone; what is left after a crash is swept later.
        let record = session.dir.join("session.json");
        fs::remove_file(&record).map_err(cannot("remove", &record))?;
        drop(lock);
        session.stop_serving()?;
        layers::remove(&session.dir)?;
        self.sweep()
    }

    /// Removes the directory of a session that cannot be read, and what only it could name.
    pub fn remove_broken(&self, dir: &Path) -> Result<(), SessionError> {
        let _guard = self.guard()?;
        layers::remove(dir)?;
        self.sweep()
    }

    /// Removes layers that no session names, unless a record that cannot be read may name them.
    pub(super) fn sweep(&self) -> Result<(), SessionError> {
        let all = self.all()?;
        let unreadable = |entry: &Result<Session, (PathBuf, SessionError)>| matches!(entry, Err((dir, _)) if dir.join("session.json").try_exists().unwrap_or(true));
        if all.iter().any(unreadable) {
            return Ok(());
        }
        let named: BTreeSet<LayerId> =
            all.iter().flatten().flat_map(|session| session.record.layers().cloned()).collect();
        self.layers.sweep(&named)
    }
}

fn read_record(path: &Path) -> Result<Record, SessionError> {
    let text = fs::read(path).map_err(cannot("read", path))?;
    let damaged = |source| SessionError::Record { path: path.to_path_buf(), source };
    if let Ok(Head { name, format, .. }) = serde_json::from_slice(&text)
        && format != FORMAT
    {
        return Err(SessionError::Version { name, found: format, known: FORMAT });
    }
    let record: Record = serde_json::from_slice(&text).map_err(damaged)?;
    if let Some(layer) = record.layers().find(|layer| !layer.is_plain()) {
        let problem = format!("`{}` is no layer", layer.as_str());
        return Err(damaged(serde::de::Error::custom(problem)));
    }
    Ok(record)
}

/// One session.
#[derive(Debug, Clone)]
pub struct Session {
    dir: PathBuf,
    layers: Layers,
    record: Record,
    cut_off: Option<Box<CutOff>>,
}

/// Processes that lost the session's mount at the end of its run; mostly none.
#[derive(Debug, Clone)]
struct CutOff(Vec<Holder>);

impl Session {
    /// Processes in other mount namespaces that had the session mounted when its run ended, and have
    /// it no more.
    pub fn cut_off(&self) -> &[Holder] {
        self.cut_off.as_deref().map_or(&[], |cut_off| &cut_off.0)
    }

    pub(super) fn set_cut_off(&mut self, holders: Vec<Holder>) {
        self.cut_off = (!holders.is_empty()).then(|| Box::new(CutOff(holders)));
    }

    /// What was on record when it was opened or last changed through this value.
    pub fn record(&self) -> &Record {
        &self.record
    }

    pub(super) fn layers(&self) -> &Layers {
        &self.layers
    }

    /// Where it lies.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether something runs in it.
    pub fn state(&self) -> State {
        match (lock::holder(&self.dir.join("lock")), &self.record.holder) {
            (_, Some(holder)) => State::Held(holder.clone()),
            (Some(pid), None) => State::Running(pid),
            (None, None) if self.record.runs.last().is_some_and(|run| run.ended.is_none()) => {
                State::Killed
            }
            (None, None) => State::Stopped,
        }
    }

    /// Takes the session for oneself: for a run, or to take its changes over.
    pub fn lock(&self) -> Result<Lock, SessionError> {
        self.lock_for(None)
    }

    /// The same for whoever has kept it in use, or nobody.
    pub(super) fn lock_for(&self, holder: Option<&str>) -> Result<Lock, SessionError> {
        let path = self.dir.join("lock");
        let name = || self.record.name.clone();
        let lock = Lock::try_take(&path)?.ok_or_else(|| SessionError::Busy {
            name: name(),
            pid: lock::holder(&path).filter(|pid| *pid > 0),
        })?;
        // Since this value was read, somebody may have come and gone.
        match read_record(&self.dir.join("session.json"))?.holder {
            Some(other) if Some(other.as_str()) != holder => {
                Err(SessionError::Held { name: name() })
            }
            _ => Ok(lock),
        }
    }

    /// Changes the record. Whoever runs in the session and whoever looks after it may both do so.
    pub fn update(&mut self, change: impl FnOnce(&mut Record)) -> Result<(), SessionError> {
        let _writing = Lock::take(&self.dir.join("record.lock"))?;
        self.record = read_record(&self.dir.join("session.json"))?;
        change(&mut self.record);
        self.write(Durability::Content)
    }

    fn write(&self, when: Durability) -> Result<(), SessionError> {
        let path = self.dir.join("session.json");
        let bytes = serde_json::to_vec_pretty(&self.record)
            .map_err(|source| SessionError::Record { path: path.clone(), source })?;
        disk::replace(&path, &bytes, when)
    }

    pub(super) fn root(&self, root: usize) -> Result<&Root, SessionError> {
        let name = || self.record.name.clone();
        self.record.roots.get(root).ok_or_else(|| SessionError::Root { name: name(), root })
    }

    /// What root number `root` holds on top of its base.
    pub fn layer(&self, root: usize) -> Result<Box<dyn Layer>, SessionError> {
        let root = self.root(root)?;
        if (self.record.engine, root.kind) == (Engine::Agentfs, RootKind::Dir) {
            return Ok(Box::new(Database::open(&self.top_database(root))?));
        }
        let uppers = self.uppers(root);
        let stack = Stack::open(&uppers, root.base());
        let path = uppers.last().cloned().unwrap_or_default();
        Ok(Box::new(stack.map_err(|source| LayerError::Io { path, source })?))
    }

    /// Whether nothing at all has ever been changed in it.
    pub fn is_untouched(&self) -> bool {
        let is_empty = |layer: &LayerId| {
            fs::read_dir(self.layers.upper(layer)).is_ok_and(|mut entries| entries.next().is_none())
        };
        let files = self.record.roots.iter().any(|root| root.kind == RootKind::File);
        self.record.engine == Engine::Overlay && !files && self.record.layers().all(is_empty)
    }

    /// Throws all changes away: each root goes on with one empty layer. Snapshots stay.
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

    /// The directories of a root's layers, the lowest first.
    pub(super) fn uppers(&self, root: &Root) -> Vec<PathBuf> {
        root.stack.iter().map(|layer| self.layers.upper(layer)).collect()
    }

    /// How many bytes the layers of the session take on the disk, shared ones included.
    pub fn size(&self) -> u64 {
        let layers: BTreeSet<&LayerId> = self.record.layers().collect();
        layers.into_iter().map(|layer| layers::size(&self.layers.dir(layer))).sum()
    }

    /// The directory on the host that the paths of root number `root` are relative to.
    pub fn base_dir(&self, root: usize) -> Result<&Path, SessionError> {
        Ok(self.root(root)?.base())
    }

    /// What the changed files of root number `root` were when they were first changed.
    pub fn base_record(&self, root: usize) -> Result<BaseRecord, SessionError> {
        let mut record = self.recorded(root)?;
        self.recover(root, &mut record)?;
        Ok(record)
    }

    /// The same, as it stands on the disk.
    pub(super) fn recorded(&self, root: usize) -> Result<BaseRecord, SessionError> {
        self.root(root)?;
        BaseRecord::read(&self.dir.join("base"), root)
    }

    /// Keeps what is known of the base of root number `root`.
    pub fn save_base_record(&self, root: usize, record: &BaseRecord) -> Result<(), SessionError> {
        self.root(root)?;
        record.write(root)
    }

    /// Where the changes that were taken over are kept, one directory for each time.
    pub fn applied_dir(&self) -> PathBuf {
        self.dir.join("applied")
    }
}
