//! Sessions as data: identity, request, observed state.

mod id;
mod find;
mod settings;

use std::path::PathBuf;
use std::str::FromStr;

pub use sandbox_policy::config::BackendKind;
use serde::Serialize;

pub(crate) use find::label;
pub use find::{Matching, choose};
pub use id::{Name, SessionId};
pub use settings::Settings;

/// Recorded session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Id, which never changes.
    pub id: SessionId,
    /// Name.
    pub name: Name,
    /// True when the user chose the name; false when it was derived from the project.
    pub named: bool,
    /// Project directory, absolute and free of symlinks.
    pub project: PathBuf,
    /// Backend.
    pub backend: BackendKind,
    /// Request in JSON, with the settings that it resolved to.
    pub request: String,
    /// Hash of the policy that it was brought up with.
    pub policy: String,
    /// True when its changes go to the copy-on-write layer of the same name.
    pub cow: bool,
    /// Requested state.
    pub wanted: Wanted,
    /// Seconds since the epoch.
    pub created: u64,
    /// Boot id of the machine when it was last brought up.
    pub boot: String,
}

/// Session to create or start.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Name, if the user chose one.
    pub name: Option<Name>,
    /// Project directory, absolute and free of symlinks.
    pub project: PathBuf,
    /// Backend.
    pub backend: BackendKind,
    /// Request in JSON, with the settings that it resolved to.
    pub request: String,
    /// Hash of the policy.
    pub policy: String,
    /// True when its changes go to a copy-on-write layer.
    pub cow: bool,
}

/// Word in the database that this version does not know.
#[derive(Debug, thiserror::Error)]
#[error("unknown word `{0}`")]
pub struct UnknownWord(String);

/// Parses the name of a backend in the database.
pub(crate) fn backend_named(word: &str) -> Result<BackendKind, UnknownWord> {
    let named = BackendKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    named.ok_or_else(|| UnknownWord(word.to_owned()))
}

/// Requested state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Up.
    Up,
    /// Down.
    Down,
}

impl Wanted {
    /// Returns the word in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

impl FromStr for Wanted {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        [Self::Up, Self::Down]
            .into_iter()
            .find(|wanted| wanted.as_str() == text)
            .ok_or_else(|| UnknownWord(text.to_owned()))
    }
}

/// Observed state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is being created or removed.
    Starting,
    /// It is up.
    Running,
    /// It is paused.
    Suspended,
    /// It is down.
    Stopped,
    /// It should be up, but is not. The next command repairs it.
    Killed,
}

impl State {
    /// Returns the word for output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Stopped => "stopped",
            Self::Killed => "killed",
        }
    }
}
