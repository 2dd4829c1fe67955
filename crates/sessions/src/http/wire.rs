//! Wire types: requests, responses, problems.

mod review;

use std::collections::BTreeMap;
use std::error::Error;

use sandbox_layers::review::LeftReport;
use sandbox_protocol::Hint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::AgentStatus;
use crate::error::ControlError;
use crate::service::Seen;
pub(super) use review::check_paths;
pub use review::{Applied, Apply, Discard, Discarded, Reverted, Undo};

/// Session to create or start. Repeating the request returns the same session. A different request for a
/// session that is up is answered with 409 and changes nothing, unless `recreate` is set.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// Name of the session; derived from the directory by default.
    pub name: Option<String>,
    /// Absolute path of the project on the host.
    pub cwd: String,
    /// Absolute path of a configuration file that replaces the project's. Naming it here trusts it.
    pub config: Option<String>,
    /// `"host"`, `"none"` or `"allow"`. The configuration decides by default.
    pub network: Option<String>,
    /// True to keep changes in a copy-on-write layer. The configuration decides by default.
    pub cow: Option<bool>,
    /// Read-only paths.
    #[serde(default)]
    pub ro: Vec<String>,
    /// Writable paths.
    #[serde(default)]
    pub rw: Vec<String>,
    /// Hidden paths.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Environment variables to set.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Trust the current content of the project's configuration.
    #[serde(default)]
    pub trust: bool,
    /// Recreate a session that is up with different settings.
    #[serde(default)]
    pub recreate: bool,
}

/// Session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Session")]
pub struct SessionView {
    /// Id, which never changes.
    pub id: String,
    /// Name.
    pub name: String,
    /// `"starting"`, `"running"`, `"suspended"`, `"stopped"` or `"killed"`.
    pub state: String,
    /// `"bwrap"` or `"docker"`.
    pub backend: String,
    /// Project directory.
    pub project: String,
    /// True when changes go to a copy-on-write layer.
    pub cow: bool,
    /// Hash of the policy that it was brought up with.
    pub policy: String,
    /// Seconds since the epoch.
    pub created: u64,
    /// Process or container.
    pub handle: Option<String>,
    /// State of the agent, if there is one.
    pub agent: Option<AgentStatus>,
}

impl From<Seen> for SessionView {
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

/// Sessions.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Sessions {
    /// Sessions, the oldest first.
    pub sessions: Vec<SessionView>,
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
    /// Number of processes.
    pub processes: u64,
    /// Memory in use. For a container, as its cgroup counts it; otherwise the sum over processes, which counts shared
    /// pages repeatedly.
    pub memory_bytes: u64,
    /// CPU time. For a container, the total; otherwise that of running processes.
    pub cpu_seconds: f64,
}

/// First message of a WebSocket at `exec`: the command to run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// Command and arguments.
    pub argv: Vec<String>,
    /// Environment variables in addition to the session's.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Working directory in the session; the project by default.
    pub cwd: Option<String>,
    /// Terminal size. Without it, the command has no terminal.
    pub terminal: Option<Size>,
}

/// Terminal size.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Number of lines.
    pub rows: u16,
    /// Number of columns.
    pub columns: u16,
}

/// Text message from the client after the first one. Input is sent as binary messages.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Control {
    /// Resize the terminal.
    Resize(Size),
    /// Send a signal: `"INT"`, `"TERM"`, `"HUP"`, `"QUIT"` or `"KILL"`.
    Signal(String),
    /// End the input.
    Eof(bool),
}

/// Last text message from the server. Output precedes it as binary messages: a byte 1 (stdout) or 2 (stderr), then the
/// data.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Exit {
    /// Exit code; 128 plus the number of a signal that ended the command.
    pub code: u8,
    /// Reason if the command did not start.
    pub why: Option<String>,
}

/// Response to a call that failed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Failure {
    /// The problem.
    pub error: Problem,
}

/// Problem of a call.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Problem {
    /// Stable error code.
    pub code: String,
    /// Message for the user.
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
    /// Changes that can run code later, and are applied only if listed in `paths`.
    pub held: Vec<LeftReport>,
    /// Changes that conflict with the host.
    pub conflicts: Vec<LeftReport>,
}

/// Maximum length of an argument or environment string, with its NUL (`MAX_ARG_STRLEN`, execve(2)).
const LONGEST_WORD: usize = 128 << 10;

/// Checks the environment of a command. `NAME=VALUE` counts as one string, with its NUL.
pub(super) fn check_env(env: &BTreeMap<String, String>) -> Result<(), Problem> {
    for (name, value) in env {
        let shown: String = name.chars().take(64).collect();
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Problem::new("invalid", format!("invalid variable name {shown:?}")));
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
    /// Checks that the kernel accepts the command: execve(2).
    pub(super) fn check(&self) -> Result<(), Problem> {
        let invalid = |message: &str| Err(Problem::new("invalid", message));
        if self.argv.is_empty() {
            return invalid("`argv` is empty");
        }
        if self.argv.iter().chain(&self.cwd).any(|word| word.contains('\0')) {
            return invalid("`argv` or `cwd` contains NUL");
        }
        if self.argv.iter().any(|word| word.len() >= LONGEST_WORD) {
            return invalid("an element of `argv` is longer than the kernel allows");
        }
        check_env(&self.env)
    }
}

impl Problem {
    /// Creates a problem with a code and a message.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), hint: None, changes: None }
    }

    /// Creates a problem from an error and its causes.
    pub(crate) fn caused(code: &str, error: &dyn Error) -> Self {
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
