//! A session's changes: looked at, taken over, thrown away, taken back.

pub(crate) mod diff;
pub(crate) mod apply;
pub(crate) mod undo;
pub(crate) mod discard;
pub(crate) mod safe;
mod pager;
mod stat;
mod json;
mod ask;
mod hunks;
mod progress;
mod later;
mod select;

use std::io;
use std::path::{Path, PathBuf};

use sandbox_core::Host;
use sandbox_cowfs::Layer;
use sandbox_cowfs::apply::{ApplyError, Journal, Status, Target};
use sandbox_cowfs::diff::{Change, Changes, DiffError, View, compare};
use sandbox_cowfs::host::HostTree;
use sandbox_cowfs::session::{
    BaseRecord, Lock, Selector, Session, SessionError, Sessions, State, Still,
};
use thiserror::Error;

use super::cow;
use super::report::name;
use crate::args::Flags;
use crate::run::Failed;
use crate::ui::{Stdio, Tone};

/// Why a session's changes cannot be worked with.
#[derive(Debug, Error)]
pub(crate) enum ChangesError {
    #[error("a session's changes are looked at from outside the sandbox")]
    Inside,
    #[error("cannot open `{}`", path.display())]
    Root { path: PathBuf, source: io::Error },
    #[error("`{}` lies in no directory of the session `{session}`", path.display())]
    Elsewhere { path: PathBuf, session: String },
    #[error("the session `{0}` is running")]
    Running(String),
    #[error("the session `{0}` is up")]
    Up(String),
    #[error("{0}")]
    NoTerminal(String),
}

impl ChangesError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Running(_) => Some("wait for its end, or end it".into()),
            Self::Up(name) => Some(format!("take it down first: agent-sandbox down {name}")),
            Self::NoTerminal(_) => Some("pass `--yes`".into()),
            Self::Inside | Self::Root { .. } | Self::Elsewhere { .. } => None,
        }
    }
}

impl From<ChangesError> for Failed {
    fn from(error: ChangesError) -> Self {
        let code = if matches!(error, ChangesError::Elsewhere { .. }) { 2 } else { 1 };
        let hint = error.hint();
        Self { error: Box::new(error), hint, code }
    }
}

impl From<ApplyError> for Failed {
    fn from(error: ApplyError) -> Self {
        let hint = error.hint();
        Self { error: Box::new(error), hint, code: 1 }
    }
}

impl From<DiffError> for Failed {
    fn from(error: DiffError) -> Self {
        Self { error: Box::new(error), hint: None, code: 1 }
    }
}

/// A session that was found by what the user said.
pub(crate) struct Opened {
    pub(crate) session: Session,
    /// Held when nothing runs in it.
    pub(crate) lock: Option<Lock>,
    /// What runs in it, when that is held still.
    still: Option<Still>,
}

impl Opened {
    /// Finds a session. A run that was killed is brought to its end.
    pub(crate) fn find(name: Option<&str>, flags: &Flags, host: &Host) -> Result<Self, Failed> {
        if host.inside {
            return Err(ChangesError::Inside.into());
        }
        let directory = directory(flags, host);
        let selector = match name.or(flags.session.as_deref()) {
            Some(name) => Selector::named(&directory, name),
            None => Selector::latest(&directory),
        };
        let mut session = cow::sessions(host)?.find(&selector)?;
        let lock = match session.lock() {
            Ok(lock) => Some(lock),
            Err(SessionError::Busy { .. } | SessionError::Held { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(lock) = &lock {
            session.settle(lock)?;
        }
        Ok(Self { session, lock, still: None })
    }

    pub(crate) fn name(&self) -> &str {
        &self.session.record().name
    }

    /// The lock, or why there is none.
    pub(crate) fn stopped(&self) -> Result<&Lock, ChangesError> {
        let name = || self.name().to_owned();
        self.lock.as_ref().ok_or_else(|| match self.session.state() {
            State::Held(_) => ChangesError::Up(name()),
            _ => ChangesError::Running(name()),
        })
    }

    /// Holds what runs in it still, until the end.
    pub(crate) fn hold_still(&mut self, host: &Host) -> Result<(), SessionError> {
        self.still = Some(self.session.hold_still(&cow::freeze(host))?);
        Ok(())
    }

    /// Everything that is known about each of its roots.
    pub(crate) fn roots(&self) -> Result<Vec<OpenRoot>, Failed> {
        let count = self.session.record().roots.len();
        (0..count).map(|number| self.root(number)).collect()
    }

    fn root(&self, number: usize) -> Result<OpenRoot, Failed> {
        let path = self.session.base_dir(number)?;
        let host = HostTree::open(path)
            .map_err(|source| ChangesError::Root { path: path.to_path_buf(), source })?;
        let layer = self.session.layer(number)?;
        let record = self.session.base_record(number)?;
        let mut changes = compare(layer.as_ref(), &host, &record)?;
        if self.lock.is_none() && self.still.is_none() {
            // What a running session stands on is recorded at its end.
            changes.list.iter_mut().for_each(|change| change.meanwhile = false);
        }
        Ok(OpenRoot { number, host, layer, record, changes })
    }

    /// The journal of an apply that was killed, if the last one was.
    pub(crate) fn interrupted(&self) -> Result<Option<Journal>, ApplyError> {
        let last = Journal::list(&self.session.applied_dir())?.pop();
        Ok(last.filter(|last| matches!(last.status, Status::Applying | Status::Undoing)))
    }

    /// Says that an apply was killed, and what can be done.
    pub(crate) fn tell_interrupted(&self, io: &mut Stdio<'_>) -> Result<(), ApplyError> {
        if self.interrupted()?.is_some() {
            let text = format!(
                "an apply was interrupted; `agent-sandbox apply -s {0} --resume` completes it, \
                 `agent-sandbox undo -s {0}` takes it back",
                self.name()
            );
            io.labelled(Tone::Warning, "note", &text);
        }
        Ok(())
    }
}

/// Where the user stands.
pub(crate) fn directory(flags: &Flags, host: &Host) -> PathBuf {
    let cwd = host.cwd.as_deref().unwrap_or(Path::new("/"));
    let asked = flags.cwd.as_ref().map_or_else(|| cwd.to_path_buf(), |dir| cwd.join(dir));
    std::fs::canonicalize(&asked).unwrap_or(asked)
}

/// All sessions, for whoever wants to know whether a word names one.
pub(crate) fn sessions(host: &Host) -> Result<Sessions, Failed> {
    Ok(cow::sessions(host)?)
}

/// One root of a session with its changes.
pub(crate) struct OpenRoot {
    pub(crate) number: usize,
    pub(crate) host: HostTree,
    pub(crate) layer: Box<dyn Layer>,
    pub(crate) record: BaseRecord,
    pub(crate) changes: Changes,
}

impl OpenRoot {
    pub(crate) fn view(&self) -> View<'_> {
        View { layer: self.layer.as_ref(), host: &self.host, record: &self.record }
    }

    pub(crate) fn target(&self) -> Target<'_> {
        Target {
            number: self.number,
            host: &self.host,
            layer: self.layer.as_ref(),
            record: &self.record,
            free: free_space(self.host.path()),
        }
    }

    /// The path of a change as the user would type it: below the working directory as it is there,
    /// else in full.
    pub(crate) fn shown(&self, change: &Change, directory: &Path) -> String {
        let full = self.host.path().join(change.path.as_path());
        name(full.strip_prefix(directory).unwrap_or(&full))
    }
}

/// Bytes that may be written to the filesystem of a directory; all there could be where it does not
/// say.
pub(crate) fn free_space(dir: &Path) -> u64 {
    sandbox_linux::file::free_space(dir).unwrap_or(u64::MAX)
}
