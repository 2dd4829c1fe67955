//! A session, as data: who it is, what was asked for, what became of it.

mod id;
mod find;
mod settings;

use std::path::PathBuf;
use std::str::FromStr;

pub use sandbox_policy::config::BackendKind;
use serde::Serialize;

pub(crate) use find::told;
pub use find::{Matching, choose};
pub use id::{Name, SessionId};
pub use settings::Settings;

/// A session on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Made once, for good.
    pub id: SessionId,
    /// What the user calls it.
    pub name: Name,
    /// Whether the user chose the name, or it was made after the project.
    pub named: bool,
    /// The working directory, absolute and free of symlinks.
    pub project: PathBuf,
    /// Who carries it out.
    pub backend: BackendKind,
    /// What was asked for, in the backend's own terms.
    pub request: String,
    /// A hash of the policy that it was made by.
    pub policy: String,
    /// Whether its changes are kept apart, in the copy-on-write session of the same name.
    pub cow: bool,
    /// Whether it is meant to be up.
    pub wanted: Wanted,
    /// Seconds since the epoch.
    pub created: u64,
    /// The boot of the machine in which it was last brought up.
    pub boot: String,
}

/// What a session is to be.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// The name, if the user gave one.
    pub name: Option<Name>,
    /// The working directory, absolute and free of symlinks.
    pub project: PathBuf,
    /// Who carries it out.
    pub backend: BackendKind,
    /// What was asked for, in the backend's own terms.
    pub request: String,
    /// A hash of the policy.
    pub policy: String,
    /// Whether its changes are kept apart.
    pub cow: bool,
}

/// A word in the record that this version does not know.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not known here")]
pub struct UnknownWord(String);

/// Returns the backend that a word in the record names.
pub(crate) fn backend_named(word: &str) -> Result<BackendKind, UnknownWord> {
    let named = BackendKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    named.ok_or_else(|| UnknownWord(word.to_owned()))
}

/// Whether a session is meant to be up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// It is.
    Up,
    /// It is not, any more.
    Down,
}

impl Wanted {
    /// As it is written.
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

/// What became of a session, as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is being made, or being taken down.
    Starting,
    /// It is up.
    Running,
    /// It is held still.
    Suspended,
    /// It was taken down.
    Stopped,
    /// It was meant to be up, and is not: the next command puts that right.
    Killed,
}

impl State {
    /// The word for it.
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
