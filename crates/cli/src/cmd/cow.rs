//! A command whose changes are kept apart: its session before, and what came of it after.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sandbox_control::session::Matching;
use sandbox_core::Host;
use sandbox_core::config::{Config, CowEngine, Origin};
use sandbox_core::exec::{self, Rendering};
use sandbox_core::path::Kind;
use sandbox_core::plan::{self, CopyOnWrite, CowRoot, Layers, Plan, Store};
use sandbox_cowfs::session::{
    Engine, Frozen, Lock, NewSession, RootKind, Session, SessionError, Sessions, Shifted,
    wait_until_after,
};
use thiserror::Error;

use super::report::name;
use super::sessions::service;
use super::summary;
use crate::args::Flags;
use crate::run::{Failed, Outcome};
use crate::ui::{Stdio, Tone, visible};

/// Why changes cannot be kept apart.
#[derive(Debug, Error)]
pub(crate) enum CowError {
    #[error("there is no home directory to keep sessions in")]
    NoDataDir,
    #[error("cannot keep sessions in `{}`", path.display())]
    DataDir { path: PathBuf, source: std::io::Error },
    #[error("{origin}: inside a sandbox there is no place to keep changes apart")]
    Inside { origin: Origin },
    #[error("the session `{name}` was made by {made}, not by {asked}")]
    OtherEngine { name: String, made: Engine, asked: Engine },
    #[error("`{}` holds the sessions' own data, and no overlay can lie over its own layers", .0.display())]
    HoldsData(PathBuf),
}

impl CowError {
    fn hint(&self) -> String {
        match self {
            Self::NoDataDir | Self::DataDir { .. } => {
                "set `HOME` or `XDG_DATA_HOME` to a directory that you can write".into()
            }
            Self::Inside { .. } => "keep changes apart where the outermost sandbox starts".into(),
            Self::OtherEngine { made, .. } => {
                format!("pass `--cow={made}`, or another `--session`")
            }
            Self::HoldsData(_) => {
                "pass `--cow=agentfs`, set `XDG_DATA_HOME` to a directory outside of it, or work in a directory below it"
                    .into()
            }
        }
    }
}

impl From<CowError> for Failed {
    fn from(error: CowError) -> Self {
        let hint = error.hint();
        Self::new(error, Some(hint))
    }
}

impl From<SessionError> for Failed {
    fn from(error: SessionError) -> Self {
        let hint = error.hint();
        Self::new(error, hint)
    }
}

/// The sessions of this user, by the real path of their directory.
pub(crate) fn sessions(host: &Host) -> Result<Sessions, CowError> {
    let data = host.data_dir().ok_or(CowError::NoDataDir)?;
    match fs::canonicalize(&data) {
        Ok(real) => Ok(Sessions::at(real)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Sessions::at(data)),
        Err(source) => Err(CowError::DataDir { path: data, source }),
    }
}

/// Holds the container of a session still: the one that keeps the layer in use.
pub(crate) fn freeze(host: &Host) -> impl Fn(&str) -> io::Result<Frozen> + '_ {
    move |holder| {
        let found = service::open(host).and_then(|service| {
            let session = service.find(holder, Matching::Name)?;
            Ok(service.hold(&session)?)
        });
        found.map_err(|failed| {
            let hint = failed.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            io::Error::other(format!("{}{hint}", failed.error))
        })
    }
}

/// Makes the directory of sessions before anything is planned: what does not exist cannot be hidden.
pub(crate) fn make_room(config: &Config, host: &Host) -> Result<(), CowError> {
    if !config.cow.value.is_on() {
        return Ok(());
    }
    let data = host.data_dir().ok_or(CowError::NoDataDir)?;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&data);
    made.map_err(|source| CowError::DataDir { path: data, source })
}

/// A session that a command is about to run in.
pub(crate) struct Kept {
    sessions: Sessions,
    session: Session,
    lock: Lock,
    /// Made for this command.
    is_new: bool,
    /// The user gave it a name to come back to.
    is_named: bool,
}

impl Kept {
    /// Opens or makes the session that the plan asks for, and puts its layers into the plan.
    pub(crate) fn begin(
        plan: &mut Plan,
        flags: &Flags,
        host: &Host,
        started: (i64, u32),
        io: &mut Stdio<'_>,
    ) -> Result<Option<Self>, Failed> {
        if host.inside && plan.cow.is_some() {
            return inside(plan, io).map(|()| None).map_err(Failed::from);
        }
        let Some(cow) = plan.cow.as_mut() else { return Ok(None) };
        if cow.roots.is_empty() {
            io.labelled(
                Tone::Warning,
                "note",
                "nothing is writable: there are no changes to keep apart",
            );
            return Ok(None);
        }
        let mut kept = Self::open(cow, flags, &plan.config.cwd, host)?;
        if let Err(failed) = kept.mount(cow, &plan.command, started) {
            kept.give_up(io);
            return Err(failed);
        }
        Ok(Some(kept))
    }

    fn open(cow: &CopyOnWrite, flags: &Flags, project: &Path, host: &Host) -> Result<Self, Failed> {
        let engine = match cow.engine {
            CowEngine::Agentfs => Engine::Agentfs,
            CowEngine::On if no_overlay(cow, host) => Engine::Agentfs,
            _ => Engine::Overlay,
        };
        let sessions = sessions(host)?;
        let old = match &flags.session {
            Some(name) => sessions.of(project, name)?,
            None => None,
        };
        let is_new = old.is_none();
        let session = match old {
            Some(session) => session,
            None => sessions.create(NewSession {
                name: flags.session.clone(),
                project: project.to_path_buf(),
                engine,
                roots: cow.roots.iter().map(root).collect(),
            })?,
        };
        let record = session.record();
        if cow.engine != CowEngine::On && record.engine != engine {
            let (name, made) = (record.name.clone(), record.engine);
            return Err(CowError::OtherEngine { name, made, asked: engine }.into());
        }
        let lock = session.lock()?;
        let is_named = flags.session.is_some();
        Ok(Self { sessions, session, lock, is_new, is_named })
    }

    fn mount(
        &mut self,
        cow: &mut CopyOnWrite,
        command: &[std::ffi::OsString],
        started: (i64, u32),
    ) -> Result<(), Failed> {
        let roots: Vec<_> = cow.roots.iter().map(root).collect();
        self.session.add_roots(&roots)?;
        let program = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
        self.session.begin(&self.lock, &program.to_string_lossy(), started)?;
        for root in &cow.roots {
            let store = self.store(root)?;
            cow.stores.push(store);
        }
        wait_until_after(started);
        Ok(())
    }

    fn store(&self, root: &CowRoot) -> Result<Store, Failed> {
        let number = self.session.root_at(&root.source).unwrap_or(usize::MAX);
        if root.kind != Kind::Dir {
            return Ok(Store::Path(self.session.file_copy(number)?));
        }
        if self.session.record().engine == Engine::Agentfs {
            return Ok(Store::Path(self.session.serve(number, None)?));
        }
        let mount = self.session.overlay_mount(number)?;
        if mount.data.starts_with(&root.source) {
            return Err(CowError::HoldsData(root.source.clone()).into());
        }
        let (data, lower, upper, work) = (mount.data, mount.lower, mount.upper, mount.work);
        Ok(Store::Overlay(Layers { data, lower, upper, work }))
    }

    /// Ends the run and says what came of it.
    pub(crate) fn finish(mut self, ended: Outcome, io: &mut Stdio<'_>) -> Outcome {
        let code = match &ended {
            Ok(code) => Some(*code),
            Err(_) if self.is_new => {
                self.give_up(io);
                return ended;
            }
            Err(_) => None,
        };
        if self.is_new && !self.is_named && self.session.is_untouched() {
            self.give_up(io);
            io.say("nothing was changed");
            return ended;
        }
        let shifted = match self.session.finish(&self.lock, code) {
            Ok(shifted) => shifted,
            Err(error) => {
                io.error(&error, error.hint());
                return ended;
            }
        };
        let others = self.session.shifted();
        match summary::of(&self.session) {
            Ok(summary) if summary.is_empty() && self.is_new && !self.is_named => {
                self.give_up(io);
                io.say("nothing was changed");
            }
            Ok(summary) => {
                if let Ok(others) = &others {
                    also_changed(others, &shifted, io);
                }
                summary::print(&summary, &self.session, &shifted, io);
            }
            Err(error) => io.error(error.as_ref(), None),
        }
        ended
    }

    /// A session in which nothing happened leaves nothing behind.
    fn give_up(self, io: &mut Stdio<'_>) {
        if !self.is_new {
            return;
        }
        if let Err(error) = self.sessions.remove(&self.session, self.lock) {
            io.error(&error, error.hint());
        }
    }
}

/// Where it is clear beforehand that the kernel makes no overlay.
fn no_overlay(cow: &CopyOnWrite, host: &Host) -> bool {
    let data = host.data_dir().and_then(|data| fs::canonicalize(data).ok()).unwrap_or_default();
    let refused = |root: &&CowRoot| {
        data.starts_with(&root.source) || plan::mount_below(&root.source).is_some()
    };
    exec::renderings(host) == [Rendering::Plain] || cow.roots.iter().any(|root| refused(&root))
}

fn root(root: &CowRoot) -> (PathBuf, RootKind) {
    let kind = if root.kind == Kind::Dir { RootKind::Dir } else { RootKind::File };
    (root.source.clone(), kind)
}

/// Inside a sandbox the outermost one decides where changes go. A configuration that asks for it
/// is met by that one; a flag that asks for more is refused.
fn inside(plan: &mut Plan, io: &mut Stdio<'_>) -> Result<(), CowError> {
    let Some(cow) = plan.cow.take() else { return Ok(()) };
    if matches!(cow.origin, Origin::Flag(_)) {
        return Err(CowError::Inside { origin: cow.origin });
    }
    let text = format!("`cow` ({}) is up to the outermost sandbox", cow.origin);
    io.labelled(Tone::Warning, "note", &text);
    Ok(())
}

/// What else changed on the host while the command ran: it saw some of it before, some after.
fn also_changed(others: &Shifted, told: &[PathBuf], io: &mut Stdio<'_>) {
    let others: Vec<&PathBuf> = others.paths.iter().filter(|path| !told.contains(path)).collect();
    let Some(first) = others.first() else { return };
    let more = match others.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let text = format!("{}{more} changed on the host while the command ran", name(first));
    io.labelled(Tone::Warning, "note", &text);
}

/// Why an overlay cannot be made here, as far as it can be told, and what would help.
pub(crate) fn remedy(plan: &Plan) -> String {
    let roots = plan.cow.iter().flat_map(|cow| &cow.roots);
    for root in roots {
        if let Some(point) = plan::mount_below(&root.source) {
            return format!(
                "`{}` is mounted in it, which an overlay cannot show: pass `--cow=agentfs`",
                visible(&point.display().to_string())
            );
        }
    }
    "`--cow=agentfs` does without; overlays need local file systems, for the directory and for `XDG_DATA_HOME`; \
     `agent-sandbox doctor` tells whether this kernel makes them"
        .into()
}

/// Paths one below the other.
pub(crate) fn list(label: &str, paths: &[PathBuf], io: &mut Stdio<'_>) {
    const MOST: usize = 10;
    for path in paths.iter().take(MOST) {
        io.labelled(Tone::Warning, label, &name(path));
    }
    if paths.len() > MOST {
        io.say(&format!("  … and {} more", paths.len() - MOST));
    }
}
