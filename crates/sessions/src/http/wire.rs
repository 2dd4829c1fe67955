//! Types on the wire: requests, answers, problems.

mod review;

use std::collections::BTreeMap;
use std::error::Error;

use sandbox_layers::review::LeftReport;
use sandbox_protocol::Hint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::Agent;
use crate::error::ControlError;
use crate::service::Seen;
pub(super) use review::check_paths;
pub use review::{Applied, Apply, Discard, Discarded, Reverted, Undo};

/// Session to create or start. Repeating the request returns the same session. A different request for a
/// session that is up is answered with 409 and changes nothing, unless `recreate` is set.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// Name of the session; made from the directory when left out.
    pub name: Option<String>,
    /// The project's directory on the host, absolute.
    pub cwd: String,
    /// A configuration file in the place of the project's own, absolute. It is trusted by being named.
    pub config: Option<String>,
    /// `"host"`, `"none"` or `"allow"`; as the configuration says when left out.
    pub network: Option<String>,
    /// True to keep changes apart; as the configuration says when left out.
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
    /// Accept what the project's own configuration opens, with the content that it has now.
    #[serde(default)]
    pub trust: bool,
    /// Recreate a session that is up with other settings.
    #[serde(default)]
    pub recreate: bool,
}

/// A session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Session {
    /// Id, which never changes.
    pub id: String,
    /// Name.
    pub name: String,
    /// `"starting"`, `"running"`, `"suspended"`, `"stopped"` or `"killed"`.
    pub state: String,
    /// `"bwrap"` or `"docker"`.
    pub backend: String,
    /// The project's directory.
    pub project: String,
    /// True when its changes are kept apart.
    pub cow: bool,
    /// Hash of the policy that it was created by.
    pub policy: String,
    /// Seconds since the epoch.
    pub created: u64,
    /// The process or container behind it.
    pub handle: Option<String>,
    /// State of its agent, if it has one.
    pub agent: Option<Agent>,
}

impl From<Seen> for Session {
    fn from(seen: Seen) -> Self {
        let Seen { session, observed } = seen;
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
            agent: observed.agent,
        }
    }
}

/// All sessions.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Sessions {
    /// The oldest first.
    pub sessions: Vec<Session>,
}

/// Version of the server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Health {
    /// Version of agent-sandbox.
    pub version: String,
}

/// Current usage of a session.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Usage {
    /// Processes.
    pub processes: u64,
    /// Memory that is in use: of a container as its cgroup counts it, else shared pages counted in each process.
    pub memory_bytes: u64,
    /// Time on processors so far: of a container all of it, else of those that still run.
    pub cpu_seconds: f64,
}

/// First message of a WebSocket at `exec`: the command to run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// The command and its arguments.
    pub argv: Vec<String>,
    /// Variables on top of the session's own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Working directory inside; the project when left out.
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

/// Later text message of the client. Input comes as binary messages.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Control {
    /// The terminal has another size.
    Resize(Size),
    /// Pass a signal on: `"INT"`, `"TERM"`, `"HUP"`, `"QUIT"` or `"KILL"`.
    Signal(String),
    /// End of input.
    Eof(bool),
}

/// Last text message of the server. Output comes as binary messages before it: a byte that is 1 for stdout and
/// 2 for stderr, and the data.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Exit {
    /// The code; 128 and more by a signal.
    pub code: u8,
    /// Reason why the command did not start.
    pub why: Option<String>,
}

/// Answer to a call that failed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Failure {
    /// The problem.
    pub error: Problem,
}

/// Problem of a call.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Problem {
    /// Word for programs.
    pub code: String,
    /// Message for people.
    pub message: String,
    /// Next step.
    pub hint: Option<String>,
    /// Changes that stopped an apply or an undo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Box<Blocking>>,
}

/// Changes that stopped an apply or an undo.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Blocking {
    /// Changes that run code later, and are applied only when they are named.
    pub held: Vec<LeftReport>,
    /// Changes that conflict with the host.
    pub conflicts: Vec<LeftReport>,
}

/// Longest word that the kernel takes in a command line or an environment (`MAX_ARG_STRLEN`, execve(2)), with its NUL.
const LONGEST_WORD: usize = 128 << 10;

/// Checks what becomes a command's environment. The kernel takes `NAME=VALUE` as one word that ends with NUL.
pub(super) fn check_env(env: &BTreeMap<String, String>) -> Result<(), Problem> {
    for (name, value) in env {
        let shown: String = name.chars().take(64).collect();
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Problem::new("invalid", format!("invalid name of a variable: {shown:?}")));
        }
        if value.contains('\0') {
            let message = format!("the value of variable {shown:?} contains NUL");
            return Err(Problem::new("invalid", message));
        }
        if name.len() + value.len() + 2 > LONGEST_WORD {
            let message = format!("variable {shown:?} is longer than {LONGEST_WORD} bytes");
            return Err(Problem::new("invalid", message));
        }
    }
    Ok(())
}

impl Exec {
    /// Checks that the kernel can take the command.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let invalid = |message: &str| Err(Problem::new("invalid", message));
        if self.argv.is_empty() {
            return invalid("`argv` is empty");
        }
        if self.argv.iter().chain(&self.cwd).any(|word| word.contains('\0')) {
            return invalid("`argv` or `cwd` contains NUL");
        }
        if self.argv.iter().any(|word| word.len() >= LONGEST_WORD) {
            return invalid("a word of `argv` is longer than the kernel takes");
        }
        check_env(&self.env)
    }
}

impl Problem {
    /// With a word for programs.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), hint: None, changes: None }
    }

    /// With the message of an error and of everything that led to it.
    pub fn caused(code: &str, error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self::new(code, message)
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        let hint = match &error {
            ControlError::Differs { .. } => Some(
                "nothing was changed; set `\"recreate\": true` to end its processes and bring it up with the new settings"
                    .to_owned(),
            ),
            ControlError::Taken { .. } => Some("choose another `name`".to_owned()),
            _ => error.hint(),
        };
        Self { hint, ..Self::caused(error.code(), &error) }
    }
}
