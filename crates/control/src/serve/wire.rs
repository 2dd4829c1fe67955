//! What goes over the wire: requests, answers, problems.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ControlError;
use crate::service::Seen;

/// A session that is to be brought up. The same request again answers with the same session.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// What to call it; after the directory when left out.
    pub name: Option<String>,
    /// The project's directory on the host, absolute.
    pub cwd: String,
    /// A configuration file in the place of the project's own, absolute. It is trusted by being named.
    pub config: Option<String>,
    /// `"host"`, `"none"` or `"allow"`; as the configuration says when left out.
    pub network: Option<String>,
    /// Whether changes are kept apart; as the configuration says when left out.
    pub cow: Option<bool>,
    /// Paths that are read-only.
    #[serde(default)]
    pub ro: Vec<String>,
    /// Paths that are writable.
    #[serde(default)]
    pub rw: Vec<String>,
    /// Paths that are hidden.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Variables to set.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Accept what the project's own configuration opens.
    #[serde(default)]
    pub trust: bool,
}

/// A session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Session {
    /// Made once, for good.
    pub id: String,
    /// What the user calls it.
    pub name: String,
    /// `"starting"`, `"running"`, `"suspended"`, `"stopped"` or `"killed"`.
    pub state: String,
    /// `"bwrap"` or `"docker"`.
    pub backend: String,
    /// The project's directory.
    pub project: String,
    /// Whether its changes are kept apart.
    pub cow: bool,
    /// A hash of the policy that it was made by.
    pub policy: String,
    /// Seconds since the epoch.
    pub created: u64,
    /// The process or container behind it.
    pub handle: Option<String>,
    /// What became of its agent, if it has one.
    pub agent: Option<Agent>,
}

/// What became of an agent.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Agent {
    /// Whether it runs.
    pub running: bool,
    /// The code that it ended with.
    pub code: Option<u8>,
}

impl From<Seen> for Session {
    fn from(seen: Seen) -> Self {
        let Seen { session, observed } = seen;
        let agent = observed.agent.map(|agent| match agent {
            crate::backend::Agent::Running => Agent { running: true, code: None },
            crate::backend::Agent::Ended { code } => Agent { running: false, code: Some(code) },
        });
        Self {
            id: session.id.as_str().to_owned(),
            name: session.name.as_str().to_owned(),
            state: observed.state.as_str().to_owned(),
            backend: session.backend.as_str().to_owned(),
            project: session.project.to_string_lossy().into_owned(),
            cow: session.cow,
            policy: session.policy,
            created: session.created,
            handle: observed.handle,
            agent,
        }
    }
}

/// All sessions.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Sessions {
    /// The oldest first.
    pub sessions: Vec<Session>,
}

/// Who serves.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Health {
    /// Of this program.
    pub version: String,
}

/// What a session uses at this moment.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Usage {
    /// Processes.
    pub processes: u64,
    /// Memory that is in use, shared pages counted in each process.
    pub memory_bytes: u64,
    /// Time on processors so far, of those that still run.
    pub cpu_seconds: f64,
}

/// The first message of a WebSocket at `exec`: what to run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// The command and its arguments.
    pub argv: Vec<String>,
    /// Variables on top of the session's own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where, inside; the project when left out.
    pub cwd: Option<String>,
    /// A terminal of this size.
    pub terminal: Option<Size>,
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// A later text message of the client. What it types comes as binary messages.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Control {
    /// The terminal has another size.
    Resize(Size),
    /// Pass a signal on: `"INT"`, `"TERM"`, `"HUP"`, `"QUIT"` or `"KILL"`.
    Signal(String),
    /// Nothing more will be typed.
    Eof(bool),
}

/// The last text message of the server. What the command says comes as binary messages before it: a byte
/// that is 1 for output and 2 for errors, and the text.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Exit {
    /// The code; 128 and more by a signal.
    pub code: u8,
    /// Why there was no command to end.
    pub why: Option<String>,
}

/// What went wrong.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Problem {
    /// One word for programs.
    pub code: String,
    /// For people.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Problem {
    /// With a word for programs.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), hint: None }
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        let mut message = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self { code: error.code().to_owned(), message, hint: error.hint() }
    }
}
