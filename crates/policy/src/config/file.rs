//! Parser for configuration files. JSONC and TOML become one tree with positions, and the tree becomes [`FileConfig`].

mod at;
mod de;
mod node;
mod cow;
mod schema;
mod network;
mod mount;
mod describe;
mod credential;
mod container;
mod resources;
mod session;
mod host_commands;
mod word;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use sandbox_protocol::Hint;
use serde::Deserialize;
use thiserror::Error;

pub use at::{At, Position};
pub use container::{
    AgentUser, ImageName, ProgramText, RepositoryText, RevisionText, RuntimeName, SshHost, SshUser,
};
pub use cow::CowEngine;
pub use credential::{
    ArgumentText, BasicUser, FormatText, HeaderText, ModelText, QueryText, RouteText, StoredName,
    ToolText, UpstreamUrl,
};
pub(super) use describe::describe;
pub use host_commands::{HostCommands, HostKey, Transport};
pub use mount::{MountMode, MountText, SharedDir, SharedDirs};
pub use network::{NetworkMode, NetworkTable, NetworkText};
pub use resources::{Cpus, Memory, Resources};
pub use schema::{BackendKind, EnvValue, FileConfig, Filesystem, Nested, Rule};
pub use session::{
    AgentConfig, AgentInit, Dockerd, Home, Listen, Proxy, Secret, SecretMode, Services, Workspace,
};
pub(super) use word::unmarked;
pub use word::{
    CommandName, EnvName, FilePath, HostPath, HostText, InsidePath, Invalid, Label, PRESETS,
    PathText, PresetToggle,
};

use crate::text::{did_you_mean, shown};
use node::Lines;

/// Size limit of a configuration file. Real ones are much smaller.
pub const MAX_BYTES: u64 = 256 * 1024;

/// Syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// JSON with comments and trailing commas.
    Jsonc,
    /// TOML.
    Toml,
}

impl Syntax {
    /// Detects the syntax by the file extension, else by the first character: every JSONC document starts with a brace
    /// or a slash, and no TOML document does.
    pub fn of(path: &Path, text: &str) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Self::Toml,
            Some("json" | "jsonc") => Self::Jsonc,
            _ if text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '/']) => {
                Self::Jsonc
            }
            _ => Self::Toml,
        }
    }
}

/// A problem in a file, with its position.
#[derive(Debug, Error)]
#[error("{}:{}:{}: {problem}", path.display(), position.line, position.column)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The position.
    pub position: Position,
    /// The problem.
    pub problem: Problem,
}

/// A problem in a file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file has more than [`MAX_BYTES`].
    #[error("the file is larger than {} KiB", MAX_BYTES / 1024)]
    TooLarge,
    /// The file has another encoding.
    #[error("the file is not UTF-8")]
    NotUtf8,
    /// Values are nested too deeply.
    #[error("nested too deeply")]
    TooDeep,
    /// The file is not valid JSONC or TOML.
    #[error("{0}")]
    Syntax(String),
    /// A key is not in the schema.
    #[error("unknown key {}", shown(key))]
    UnknownKey {
        /// The path of the key.
        key: String,
        /// Suggestion of the nearest known key.
        hint: Option<String>,
    },
    /// A key is given twice.
    #[error("key {} is given twice{}", shown(key), first.map_or_else(String::new, |line| format!(", first on line {line}")))]
    DuplicateKey {
        /// The key.
        key: String,
        /// The line of the first one.
        first: Option<u32>,
    },
    /// A required key is missing.
    #[error("missing key `{key}`")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
    /// A value has the wrong type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// Type in the schema.
        expected: String,
        /// Type and value in the file.
        found: String,
    },
    /// A word is not one of the known words.
    #[error("unknown value {}, expected {}", shown(word), listed(known))]
    UnknownWord {
        /// The word.
        word: String,
        /// The known words.
        known: &'static [&'static str],
    },
    /// A value is invalid for its type.
    #[error("{message}")]
    Invalid {
        /// The message.
        message: String,
        /// The next step.
        hint: Option<String>,
    },
    /// A problem in the value of a key.
    #[error("{}: {problem}", shown(key))]
    In {
        /// The path of the key.
        key: String,
        /// The problem.
        problem: Box<Problem>,
    },
}

impl Problem {
    /// Adds the path of the key in which the problem was found.
    fn within(self, path: String) -> Self {
        match self {
            Self::UnknownKey { key, hint } if !path.is_empty() => {
                Self::UnknownKey { key: format!("{path}.{key}"), hint }
            }
            other if path.is_empty() => other,
            other => Self::In { key: path, problem: Box::new(other) },
        }
    }
}

impl Hint for Problem {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Empty => Some("remove the file, or add settings to it".to_owned()),
            Self::UnknownKey { hint, .. } | Self::Invalid { hint, .. } => hint.clone(),
            Self::UnknownWord { word, known } => did_you_mean(word, known.iter().copied()),
            Self::In { problem, .. } => problem.hint(),
            _ => None,
        }
    }
}

/// Lists words as `a`, `b` or `c`.
fn listed(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

impl FileError {
    pub(super) fn new(path: &Path, position: Position, problem: Problem) -> Self {
        Self { path: path.to_owned(), position, problem }
    }
}

impl Hint for FileError {
    fn hint(&self) -> Option<String> {
        self.problem.hint()
    }
}

/// Parses the text of a file.
///
/// ```
/// use sandbox_policy::config::file::{parse, Syntax};
/// use sandbox_protocol::Hint;
/// let file = parse("network = false", Syntax::Toml, "sandbox.toml".as_ref()).unwrap();
/// assert!(file.network.is_some());
/// let error = parse(r#"{ "netwrk": false }"#, Syntax::Jsonc, "a.json".as_ref()).unwrap_err();
/// assert_eq!(error.to_string(), "a.json:1:3: unknown key `netwrk`");
/// assert_eq!(error.hint().unwrap(), "did you mean `network`?");
/// ```
pub fn parse(text: &str, syntax: Syntax, path: &Path) -> Result<FileConfig, FileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    typed(text, syntax).map_err(|(position, problem)| FileError::new(path, position, problem))
}

/// Decodes the bytes of a file.
pub(super) fn decode<'a>(bytes: &'a [u8], path: &Path) -> Result<&'a str, FileError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let (good, _) = bytes.split_at(error.valid_up_to());
        let good = String::from_utf8_lossy(good);
        FileError::new(path, Lines::new(&good).position(good.len()), Problem::NotUtf8)
    })
}

fn typed(text: &str, syntax: Syntax) -> node::Located<FileConfig> {
    let start = Position { line: 1, column: 1 };
    if text.len() as u64 > MAX_BYTES {
        return Err((start, Problem::TooLarge));
    }
    if text.trim().is_empty() {
        return Err((start, Problem::Empty));
    }
    let lines = Lines::new(text);
    let mut root = match syntax {
        Syntax::Jsonc => node::from_jsonc(text, &lines)?,
        Syntax::Toml => node::from_toml(text, &lines)?,
    };
    node::lift_sandbox(&mut root)?;
    FileConfig::deserialize(&root).map_err(|error| {
        let key = error.key();
        (error.position.unwrap_or(start), error.problem.within(key))
    })
}
