//! Layers of a run. Opens the session that receives the changes before planning, and closes it after the run.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sandbox_core::plan::{self, CopyOnWrite, CowRoot, Decided, Layers, Store};
use sandbox_core::run::{self, Rendering};
use sandbox_layers::session::{
    LayerEngine, LayerSession, LayerSessions, Lock, NewSession, RootKind, SessionError,
    wait_until_after,
};
use sandbox_policy::Host;
use sandbox_policy::config::{Config, CowEngine};
use sandbox_policy::path::Kind;
use sandbox_protocol::Hint;
use thiserror::Error;

use crate::events::{Closed, Events};
use sandbox_layers::review::Summary;

/// Failure to open or close a session's layers.
#[derive(Debug, Error)]
pub enum LayersError {
    /// There is no data directory for sessions.
    #[error("cannot store sessions: there is no home directory")]
    NoDataDir,
    /// The data directory is not usable.
    #[error("cannot store sessions in `{}`", path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The session exists, but its layers belong to another engine.
    #[error("session `{name}` uses {made}, not {requested}")]
    OtherEngine {
        /// The session.
        name: String,
        /// Its engine.
        made: LayerEngine,
        /// The requested engine.
        requested: LayerEngine,
    },
    /// The directory that needs an overlay also contains the layers.
    #[error("cannot mount an overlay over `{}`, because it contains the session data", .0.display())]
    HoldsData(PathBuf),
    /// The session cannot be opened or written.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl Hint for LayersError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoDataDir | Self::DataDir { .. } => {
                "set `HOME` or `XDG_DATA_HOME` to a writable directory".into()
            }
            Self::OtherEngine { made, .. } => {
                format!("pass `--cow={made}` or choose another `--session`")
            }
            Self::HoldsData(_) => {
                "pass `--cow=agentfs`, set `XDG_DATA_HOME` to a directory outside it, or run in a subdirectory"
                    .into()
            }
            Self::Session(error) => return error.hint(),
        })
    }
}

/// Opens the user's sessions by the real path of their directory. Removes mounts that a killed run left behind.
pub fn sessions(host: &Host) -> Result<LayerSessions, LayersError> {
    let data = host.data_dir().ok_or(LayersError::NoDataDir)?;
    let sessions = match fs::canonicalize(&data) {
        Ok(real) => LayerSessions::at(real),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => LayerSessions::at(data),
        Err(source) => return Err(LayersError::DataDir { path: data, source }),
    };
    if !host.inside {
        sessions.clear_mounts();
    }
    Ok(sessions)
}

/// Creates the data directory when copy-on-write is on, because only existing directories can be hidden.
pub fn create_data_dir(config: &Config, host: &Host) -> Result<(), LayersError> {
    if !config.cow.value.is_on() {
        return Ok(());
    }
    let data = host.data_dir().ok_or(LayersError::NoDataDir)?;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&data);
    made.map_err(|source| LayersError::DataDir { path: data, source })
}

/// A session that a command is about to run in.
pub(crate) struct OpenLayers {
    sessions: LayerSessions,
    session: LayerSession,
    lock: Lock,
    stores: Vec<Store>,
    /// True when the session was created for this run.
    is_new: bool,
    /// True when the user named the session.
    is_named: bool,
}

impl OpenLayers {
    /// Opens or creates the session that the decided policy names, and prepares its layers for mounting.
    pub(crate) fn open(
        host: &Host,
        decided: &Decided,
        name: Option<String>,
        command: &[OsString],
        started: (i64, u32),
    ) -> Result<Option<Self>, LayersError> {
        let Some(cow) = decided.cow().filter(|cow| !cow.roots.is_empty()) else { return Ok(None) };
        let mut layers = Self::create(host, cow, name, &decided.config().cwd)?;
        match layers.mount(cow, command, started) {
            Ok(()) => Ok(Some(layers)),
            Err(error) => {
                // The first failure is the one that the user can act on.
                let _ = layers.abandon();
                Err(error)
            }
        }
    }

    /// Moves out the store of each root of the plan.
    pub(crate) fn take_stores(&mut self) -> Vec<Store> {
        std::mem::take(&mut self.stores)
    }

    fn create(
        host: &Host,
        cow: &CopyOnWrite,
        name: Option<String>,
        project: &Path,
    ) -> Result<Self, LayersError> {
        let engine = match cow.engine {
            CowEngine::Agentfs => LayerEngine::Agentfs,
            CowEngine::On if no_overlay(cow, host) => LayerEngine::Agentfs,
            _ => LayerEngine::Overlay,
        };
        let sessions = sessions(host)?;
        let old = match &name {
            Some(name) => sessions.of(project, name)?,
            None => None,
        };
        let (is_new, is_named) = (old.is_none(), name.is_some());
        let session = match old {
            Some(session) => session,
            None => sessions.create(NewSession {
                name,
                project: project.to_path_buf(),
                engine,
                roots: cow.roots.iter().map(root).collect(),
            })?,
        };
        let record = session.record();
        if cow.engine != CowEngine::On && record.engine != engine {
            let (name, made) = (record.name.clone(), record.engine);
            return Err(LayersError::OtherEngine { name, made, requested: engine });
        }
        let lock = session.lock()?;
        Ok(Self { sessions, session, lock, stores: Vec::new(), is_new, is_named })
    }

    fn mount(
        &mut self,
        cow: &CopyOnWrite,
        command: &[OsString],
        started: (i64, u32),
    ) -> Result<(), LayersError> {
        let roots: Vec<_> = cow.roots.iter().map(root).collect();
        self.session.add_roots(&roots)?;
        let program = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
        self.session.begin(&self.lock, &program.to_string_lossy(), started)?;
        self.stores = cow.roots.iter().map(|root| self.store(root)).collect::<Result<_, _>>()?;
        wait_until_after(started);
        Ok(())
    }

    fn store(&self, root: &CowRoot) -> Result<Store, LayersError> {
        let number = self.session.root_at(&root.source).unwrap_or(usize::MAX);
        if root.kind != Kind::Dir {
            return Ok(Store::Path(self.session.file_copy(number)?));
        }
        if self.session.record().engine == LayerEngine::Agentfs {
            return Ok(Store::Path(self.session.serve(number)?));
        }
        let mount = self.session.overlay_mount(number)?;
        if mount.data.starts_with(&root.source) {
            return Err(LayersError::HoldsData(root.source.clone()));
        }
        let (data, lower, upper, work) = (mount.data, mount.lower, mount.upper, mount.work);
        Ok(Store::Overlay(Layers { data, lower, upper, work }))
    }

    /// Ends the session's run and reports its changes. `code` is the command's exit code; without one it never ran.
    pub(crate) fn close(mut self, code: Option<u8>, events: &mut dyn Events) {
        if code.is_none() && self.is_new {
            return self.discard(events);
        }
        if self.is_new && !self.is_named && self.session.is_untouched() {
            self.discard(events);
            return events.closed(&Closed::UNCHANGED);
        }
        match self.session.finish(&self.lock, code) {
            Ok(shifted) => self.report(&shifted, events),
            Err(error) => events.failed(&error),
        }
    }

    fn report(self, shifted: &[PathBuf], events: &mut dyn Events) {
        let cut_off: Vec<String> = self.session.cut_off().iter().map(ToString::to_string).collect();
        let others = self.session.shifted().map(|others| others.paths).unwrap_or_default();
        let also_changed: Vec<_> =
            others.into_iter().filter(|path| !shifted.contains(path)).collect();
        match Summary::of(&self.session) {
            Ok(summary) if summary.is_empty() && self.is_new && !self.is_named => {
                events.closed(&Closed { cut_off: &cut_off, ..Closed::UNCHANGED });
                self.discard(events);
            }
            Ok(summary) => events.closed(&Closed {
                session: Some(&self.session),
                summary: &summary,
                shifted,
                also_changed: &also_changed,
                cut_off: &cut_off,
            }),
            Err(error) => events.failed(&error),
        }
    }

    /// Removes a new session without changes.
    fn discard(self, events: &mut dyn Events) {
        if let Err(error) = self.remove_if_new() {
            events.failed(&error);
        }
    }

    /// Closes a session that was only partly opened: unmounts it and ends its recorded run.
    fn abandon(mut self) -> Result<(), SessionError> {
        let has_begun = self.session.record().runs.last().is_some_and(|run| run.ended.is_none());
        if !self.is_new && has_begun {
            self.session.finish(&self.lock, None)?;
        }
        self.remove_if_new()
    }

    fn remove_if_new(self) -> Result<(), SessionError> {
        if self.is_new { self.sessions.remove(&self.session, self.lock) } else { Ok(()) }
    }
}

/// Returns true when the kernel is known to refuse an overlay here.
fn no_overlay(cow: &CopyOnWrite, host: &Host) -> bool {
    let data = host.data_dir().and_then(|data| fs::canonicalize(data).ok()).unwrap_or_default();
    let refused = |root: &&CowRoot| {
        data.starts_with(&root.source) || plan::mount_below(&root.source).is_some()
    };
    run::renderings(host) == [Rendering::Bubblewrap] || cow.roots.iter().any(|root| refused(&root))
}

fn root(root: &CowRoot) -> (PathBuf, RootKind) {
    let kind = if root.kind == Kind::Dir { RootKind::Dir } else { RootKind::File };
    (root.source.clone(), kind)
}
