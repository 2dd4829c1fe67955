//! The location of a secret, as a configuration names it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use sandbox_policy::catalog::Login;
use serde::{Deserialize, Serialize};

use super::store::Name;

/// The location of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Location {
    /// In the store, under this name.
    Store(Name),
    /// In a variable of the caller.
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
    Login(&'static Login),
}

/// Seconds for which the output of a command is used.
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

/// For messages: a location holds no secret.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(name) => write!(f, "the stored secret `{name}`"),
            Self::Env(name) => write!(f, "the variable `{name}`"),
            Self::EnvFile { path, name } => write!(f, "`{name}` in `{}`", path.display()),
            Self::File(path) => write!(f, "the file `{}`", path.display()),
            Self::Command { argv, .. } => {
                write!(f, "the command `{}`", argv.first().map_or("", String::as_str))
            }
            Self::Login(login) => write!(f, "the login of {}", login.owner),
        }
    }
}
