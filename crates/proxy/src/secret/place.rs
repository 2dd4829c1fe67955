//! Where a secret is, as a configuration says it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::store::Name;

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Place {
    /// In the store, under this name.
    Store(Name),
    /// In a variable of whoever starts the sandbox.
    Env(String),
    /// In a file of lines `NAME=VALUE`.
    EnvFile {
        /// The file.
        path: PathBuf,
        /// The name in it.
        name: String,
    },
    /// A file that holds nothing else.
    File(PathBuf),
    /// What a command of the host prints.
    Command {
        /// The program and its arguments. No shell is involved.
        argv: Vec<String>,
        /// How long an answer is good for.
        #[serde(default)]
        lasting: Lasting,
    },
    /// The login of an agent on this machine, which that agent renews.
    Login(Login),
}

/// An agent whose login can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Login {
    /// Claude Code: `~/.claude/.credentials.json`.
    Claude,
    /// Codex: `~/.codex/auth.json`.
    Codex,
}

/// How long a secret that somebody printed is good for, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lasting(pub u64);

impl Default for Lasting {
    fn default() -> Self {
        Self(300)
    }
}

impl From<Lasting> for Duration {
    fn from(lasting: Lasting) -> Self {
        Self::from_secs(lasting.0)
    }
}

/// For people: never with anything secret in it, since a place is none.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(name) => write!(f, "the stored secret `{name}`"),
            Self::Env(name) => write!(f, "the variable `{name}`"),
            Self::EnvFile { path, name } => write!(f, "`{name}` in `{}`", path.display()),
            Self::File(path) => write!(f, "the file `{}`", path.display()),
            Self::Command { argv, .. } => {
                write!(f, "the command `{}`", argv.first().map_or("", String::as_str))
            }
            Self::Login(Login::Claude) => f.write_str("the login of Claude Code"),
            Self::Login(Login::Codex) => f.write_str("the login of Codex"),
        }
    }
}
