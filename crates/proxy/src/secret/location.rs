//! Location of a secret, as configured.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use sandbox_policy::catalog::Login;
use serde::{Deserialize, Serialize};

use super::store::Name;

/// Location of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Location {
    /// Entry in the store.
    Store(Name),
    /// Environment variable of the caller.
    Env(String),
    /// Line in a file of `NAME=VALUE` lines.
    EnvFile {
        /// The file.
        path: PathBuf,
        /// The variable's name.
        name: String,
    },
    /// File that contains only the secret.
    File(PathBuf),
    /// Output of a command on the host.
    Command {
        /// The program and its arguments. No shell is involved.
        argv: Vec<String>,
        /// Seconds for which the output is cached.
        #[serde(default)]
        lasting: Lasting,
    },
    /// Login of an agent on this machine. The agent renews it.
    Login(&'static Login),
}

/// Seconds for which a command's output is cached.
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

/// Text for messages. A location contains no secret.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(name) => write!(f, "stored secret `{name}`"),
            Self::Env(name) => write!(f, "variable `{name}`"),
            Self::EnvFile { path, name } => write!(f, "`{name}` in `{}`", path.display()),
            Self::File(path) => write!(f, "file `{}`", path.display()),
            Self::Command { argv, .. } => {
                write!(f, "command `{}`", argv.first().map_or("", String::as_str))
            }
            Self::Login(login) => write!(f, "the login of {}", login.owner),
        }
    }
}
