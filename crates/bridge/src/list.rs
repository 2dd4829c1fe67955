//! The host's list of allowed commands.

pub(crate) mod owner;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_policy::config::command::Entry;
use sandbox_protocol::{ExitCode, Hint};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use owner::check_owner;

pub use owner::Loose;

/// Path of a deployment's list.
pub const HOST_LIST: &str = "/etc/agent-sandbox/host-commands.toml";
/// Program that sshd starts for a key, regardless of the request.
pub(crate) const FORCED_COMMAND: &str = "/usr/local/sbin/miclaw-cmd-wrapper";

/// Commands that a deployment allows, and their limits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostList {
    /// Allowed commands.
    pub allowed: Vec<Entry>,
    /// Directories that the container shares with the host.
    pub mounts: Vec<HostMount>,
    /// Directories of the container whose changes are isolated from the host. A command started in one runs in an empty
    /// directory on the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<PathBuf>,
    /// Search path for programs.
    pub path: Vec<PathBuf>,
    /// Time limit of a command in seconds.
    pub timeout: u64,
    /// Maximum output of a command in bytes, both streams together.
    pub output: u64,
    /// Maximum number of concurrent commands.
    pub parallel: u32,
    /// Path of the audit log.
    pub audit: Option<PathBuf>,
    /// File to which `up` adds the keys of sessions; `%u` is the user. Without it, `up` prints the line to add.
    pub authorized_keys: Option<PathBuf>,
    /// Only command line that the login shell of the dedicated user accepts.
    pub forced_command: String,
}

/// Directory shared between container and host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostMount {
    /// Path in the container.
    pub container: PathBuf,
    /// Path on the host.
    pub host: PathBuf,
}

impl Default for HostList {
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            mounts: Vec::new(),
            apart: Vec::new(),
            path: ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from).to_vec(),
            timeout: 1800,
            output: 100 << 20,
            parallel: 16,
            audit: None,
            authorized_keys: None,
            forced_command: FORCED_COMMAND.into(),
        }
    }
}

/// Reason why a list cannot be used.
#[derive(Debug, Error)]
pub enum ListError {
    /// The list cannot be read.
    #[error("cannot read the list of host commands `{}`", .path.display())]
    Read {
        /// File.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Another user can change the list.
    #[error("cannot trust the list of host commands `{}`: {loose}", .path.display())]
    Loose {
        /// File.
        path: PathBuf,
        /// Cause.
        loose: Loose,
    },
    /// The content is invalid.
    #[error("invalid list of host commands `{}`: {why}", .path.display())]
    Wrong {
        /// File.
        path: PathBuf,
        /// Cause.
        why: String,
    },
}

impl Hint for ListError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(
                "without it, no command is allowed; `agent-sandbox host-command setup` creates one"
                    .into(),
            ),
            Self::Loose { loose, .. } => loose.hint(),
            _ => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}

impl HostList {
    /// Reads the enforced list. Refuses one that another user can change.
    pub(crate) fn read_enforced(path: &Path) -> Result<Self, ListError> {
        let list = Self::read(path)?;
        check_owner(path, sandbox_linux::process::uid())
            .map_err(|loose| ListError::Loose { path: path.to_owned(), loose })?;
        Ok(list)
    }

    /// Reads a file: TOML, or JSON if its name ends in `.json`.
    pub fn read(path: &Path) -> Result<Self, ListError> {
        let read = |source| ListError::Read { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(read)?;
        let wrong = |why: String| ListError::Wrong { path: path.to_owned(), why };
        let list: Self = if path.extension().is_some_and(|name| name == "json") {
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?
        } else {
            toml::from_str(&text).map_err(|error| wrong(error.to_string().trim().to_owned()))?
        };
        list.check().map_err(wrong)?;
        Ok(list)
    }

    fn check(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for entry in &self.allowed {
            if !seen.insert(&entry.words) {
                return Err(format!("`{}` is listed twice", entry.text()));
            }
        }
        let places = self.mounts.iter().flat_map(|mount| [&mount.container, &mount.host]);
        let mut places = places.chain(&self.path).chain(&self.audit).chain(&self.authorized_keys);
        if let Some(path) = places.find(|path| !path.is_absolute()) {
            return Err(format!("`{}` is not absolute", path.display()));
        }
        if self.timeout == 0 || self.output == 0 || self.parallel == 0 {
            return Err("`timeout`, `output` and `parallel` must be at least 1".into());
        }
        Ok(())
    }

    /// Returns the longest entry that covers a request.
    pub fn find(&self, argv: &[OsString]) -> Option<&Entry> {
        let covering = self.allowed.iter().filter(|entry| entry.covers(argv));
        covering.max_by_key(|entry| entry.words.len())
    }
}
