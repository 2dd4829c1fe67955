//! Store of a user's sessions.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_linux::replace::Durability;

use super::disk;
use super::error::{SessionError, Unusable, cannot};
use super::find::{self, Selector};
use super::layers::{self, Layers};
use super::lock::Lock;
use super::opened::{LayerSession, read_record};
use super::record::{FORMAT, Head, LayerEngine, LayerId, Root, RootKind, SessionRecord};

/// Sessions of a user.
#[derive(Debug, Clone)]
pub struct LayerSessions {
    data: PathBuf,
    layers: Layers,
}

/// Settings of a new session.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Name. `None` for a name derived from the project.
    pub name: Option<String>,
    /// Working directory, absolute and without symlinks.
    pub project: PathBuf,
    /// Engine of its layers.
    pub engine: LayerEngine,
    /// Directories and files whose changes it stores, absolute and without symlinks.
    pub roots: Vec<(PathBuf, RootKind)>,
}

/// Session, or the directory and the error of an unreadable one.
type Opened = Result<LayerSession, (PathBuf, SessionError)>;

impl LayerSessions {
    /// Opens the sessions below agent-sandbox's data directory. Creates nothing until needed.
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

    /// Creates a session.
    pub fn create(&self, new: NewSession) -> Result<LayerSession, SessionError> {
        let _guard = self.guard()?;
        let name = self.free_name(new.name, &new.project)?;
        let mut roots = Vec::new();
        for (path, kind) in new.roots {
            let stack = vec![self.layers.create(&path, kind, new.engine)?];
            roots.push(Root { path, kind, stack });
        }
        let record = SessionRecord {
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

    /// Returns a name that is free in its project.
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

    /// Writes the record of a new session.
    pub(super) fn add(&self, record: SessionRecord) -> Result<LayerSession, SessionError> {
        let dir = self.dir().join(&record.id);
        disk::private_dir(&dir)?;
        let session = LayerSession::new(dir, self.layers.clone(), record);
        // A new session is worthless before its first run is recorded, so this need not be durable.
        session.write(Durability::Cached)?;
        Ok(session)
    }

    /// Returns the selected session.
    pub fn find(&self, selector: &Selector) -> Result<LayerSession, SessionError> {
        let (sessions, unusable) = self.sorted()?;
        find::choose(sessions, unusable, selector)
    }

    /// Returns the session of exactly this project and name. An unreadable record that may have this name is an error,
    /// because a second session would start with an empty layer.
    pub fn of(&self, project: &Path, name: &str) -> Result<Option<LayerSession>, SessionError> {
        let (sessions, unusable) = self.sorted()?;
        let same = |session: &LayerSession| {
            session.record().name == name && session.record().project == project
        };
        if let Some(session) = sessions.into_iter().find(same) {
            return Ok(Some(session));
        }
        let same = |head: &Head| head.name == name && head.project == project;
        let blocking = unusable.into_iter().find(|one| one.head.as_ref().is_none_or(same));
        blocking.map_or(Ok(None), |one| Err(one.error))
    }

    /// Returns usable sessions and unusable records.
    fn sorted(&self) -> Result<(Vec<LayerSession>, Vec<Unusable>), SessionError> {
        let (mut sessions, mut unusable) = (Vec::new(), Vec::new());
        for opened in self.all()? {
            match opened {
                Ok(session) => sessions.push(session),
                Err((dir, error)) => {
                    let file = dir.join("session.json");
                    // A directory without a record is the rest of a removed session.
                    if file.try_exists().unwrap_or(true) {
                        unusable.push(Unusable { head: Head::read(&file), dir, error });
                    }
                }
            }
        }
        Ok((sessions, unusable))
    }

    /// Returns every readable session, the oldest first.
    pub fn list(&self) -> Result<Vec<LayerSession>, SessionError> {
        Ok(self.all()?.into_iter().filter_map(Result::ok).collect())
    }

    /// Returns the directories of unreadable sessions with the errors.
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

    fn open(&self, dir: &Path) -> Result<LayerSession, SessionError> {
        let record = read_record(&dir.join("session.json"))?;
        Ok(LayerSession::new(dir.to_path_buf(), self.layers.clone(), record))
    }

    /// Removes a session, which must not be in use, and every layer that no other session names.
    pub fn remove(&self, session: &LayerSession, lock: Lock) -> Result<(), SessionError> {
        let _guard = self.guard()?;
        session.tidy()?;
        // Removing the record removes the session. After a crash, a later sweep deletes the rest.
        let record = session.dir().join("session.json");
        fs::remove_file(&record).map_err(cannot("remove", &record))?;
        drop(lock);
        session.stop_serving()?;
        layers::remove(session.dir())?;
        self.sweep()
    }

    /// Removes the directory of an unreadable session and the layers that only it could name.
    pub fn remove_broken(&self, dir: &Path) -> Result<(), SessionError> {
        let _guard = self.guard()?;
        layers::remove(dir)?;
        self.sweep()
    }

    /// Removes layers that no session names, unless an unreadable record may name them.
    pub(super) fn sweep(&self) -> Result<(), SessionError> {
        let all = self.all()?;
        let unreadable = |entry: &Result<LayerSession, (PathBuf, SessionError)>| matches!(entry, Err((dir, _)) if dir.join("session.json").try_exists().unwrap_or(true));
        if all.iter().any(unreadable) {
            return Ok(());
        }
        let named: BTreeSet<LayerId> =
            all.iter().flatten().flat_map(|session| session.record().layers().cloned()).collect();
        self.layers.sweep(&named)
    }
}
