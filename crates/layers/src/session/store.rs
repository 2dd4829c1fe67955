//! All sessions of a user.

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

/// The sessions of a user.
#[derive(Debug, Clone)]
pub struct LayerSessions {
    data: PathBuf,
    layers: Layers,
}

/// Settings of a new session.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Its name; nothing for a name after the project.
    pub name: Option<String>,
    /// The working directory, absolute and free of symlinks.
    pub project: PathBuf,
    /// Engine of its layers.
    pub engine: LayerEngine,
    /// The places whose changes it keeps, absolute and free of symlinks.
    pub roots: Vec<(PathBuf, RootKind)>,
}

/// A session, or its directory and why it cannot be read.
type Opened = Result<LayerSession, (PathBuf, SessionError)>;

impl LayerSessions {
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
    pub(super) fn add(&self, record: SessionRecord) -> Result<LayerSession, SessionError> {
        let dir = self.dir().join(&record.id);
        disk::private_dir(&dir)?;
        let session = LayerSession::new(dir, self.layers.clone(), record);
        // A new session means nothing before its first run is on record.
        session.write(Durability::Cached)?;
        Ok(session)
    }

    /// The session that is meant.
    pub fn find(&self, selector: &Selector) -> Result<LayerSession, SessionError> {
        let (sessions, unusable) = self.sorted()?;
        find::choose(sessions, unusable, selector)
    }

    /// The session of exactly this project and name, to go on with. A record that cannot be read, and
    /// may be the one of this name, is an error: a second session would begin on an empty layer.
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

    /// Sessions that can be used, and records that cannot.
    fn sorted(&self) -> Result<(Vec<LayerSession>, Vec<Unusable>), SessionError> {
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
    pub fn list(&self) -> Result<Vec<LayerSession>, SessionError> {
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

    fn open(&self, dir: &Path) -> Result<LayerSession, SessionError> {
        let record = read_record(&dir.join("session.json"))?;
        Ok(LayerSession::new(dir.to_path_buf(), self.layers.clone(), record))
    }

    /// Removes a session and every layer that no other session names. It must not be in use.
    pub fn remove(&self, session: &LayerSession, lock: Lock) -> Result<(), SessionError> {
        let _guard = self.guard()?;
        session.tidy()?;
        // Without its record a session is gone; what is left after a crash is swept later.
        let record = session.dir().join("session.json");
        fs::remove_file(&record).map_err(cannot("remove", &record))?;
        drop(lock);
        session.stop_serving()?;
        layers::remove(session.dir())?;
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
        let unreadable = |entry: &Result<LayerSession, (PathBuf, SessionError)>| matches!(entry, Err((dir, _)) if dir.join("session.json").try_exists().unwrap_or(true));
        if all.iter().any(unreadable) {
            return Ok(());
        }
        let named: BTreeSet<LayerId> =
            all.iter().flatten().flat_map(|session| session.record().layers().cloned()).collect();
        self.layers.sweep(&named)
    }
}
