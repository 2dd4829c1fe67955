//! The list on the host, which is what is enforced.

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

/// Where the list of a deployment lies.
pub const HOST_LIST: &str = "/etc/agent-sandbox/host-commands.toml";
/// Program that sshd starts for a key, whatever the request says.
pub(crate) const FORCED_COMMAND: &str = "/usr/local/sbin/miclaw-cmd-wrapper";

/// What a deployment allows, and within which limits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostList {
    /// The commands.
    pub allowed: Vec<Entry>,
    /// Which directories the container shares with the host.
    pub mounts: Vec<HostMount>,
    /// Directories of the container whose changes the host does not see. Who asks from there works nowhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<PathBuf>,
    /// Where programs are looked for.
    pub path: Vec<PathBuf>,
    /// How many seconds a command may take.
    pub timeout: u64,
    /// How many bytes it may print, both streams together.
    pub output: u64,
    /// How many may run at a time.
    pub parallel: u32,
    /// Where each request is written down.
    pub audit: Option<PathBuf>,
    /// Where `up` lets the keys of sessions in; `%u` is the user. Without it, it shows the line for it.
    pub authorized_keys: Option<PathBuf>,
    /// The one command line that the login shell of the dedicated user accepts.
    pub forced_command: String,
}

/// A directory that both sides see.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostMount {
    /// What it is called inside.
    pub container: PathBuf,
    /// What it is on the host.
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

/// Why there is no list.
#[derive(Debug, Error)]
pub enum ListError {
    /// It cannot be read.
    #[error("cannot read the list of host commands `{}`", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another user can change it.
    #[error("the list of host commands `{}` is not believed: {loose}", .path.display())]
    Loose {
        /// The file.
        path: PathBuf,
        /// Why.
        loose: Loose,
    },
    /// It says something that makes no sense.
    #[error("`{}` is no list of host commands: {why}", .path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Hint for ListError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(
                "nothing is allowed without it; `agent-sandbox host-command setup` writes one"
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
    /// Reads the list that is enforced, if no other user can change it.
    pub fn read_enforced(path: &Path) -> Result<Self, ListError> {
        let list = Self::read(path)?;
        check_owner(path, sandbox_linux::process::uid())
            .map_err(|loose| ListError::Loose { path: path.to_owned(), loose })?;
        Ok(list)
    }

    /// Reads a file: TOML, or JSON when its name says so.
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
                return Err(format!("`{}` stands twice", entry.text()));
            }
        }
        let places = self.mounts.iter().flat_map(|mount| [&mount.container, &mount.host]);
        let mut places = places.chain(&self.path).chain(&self.audit).chain(&self.authorized_keys);
        if let Some(path) = places.find(|path| !path.is_absolute()) {
            return Err(format!("`{}` is not absolute", path.display()));
        }
        if self.timeout == 0 || self.output == 0 || self.parallel == 0 {
            return Err("`timeout`, `output` and `parallel` are at least 1".into());
        }
        Ok(())
    }

    /// The entry for a request: of those whose words it begins with, the longest.
    pub fn find(&self, argv: &[OsString]) -> Option<&Entry> {
        let covering = self.allowed.iter().filter(|entry| entry.covers(argv));
        covering.max_by_key(|entry| entry.words.len())
    }
}
