//! Facts about the machine and the caller: read once, then passed as `&Host`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub use sandbox_protocol::layout::RUNTIME_BINARY;

/// Facts about the caller and the machine that a decision may depend on.
#[derive(Debug, Clone)]
pub struct Host {
    /// The process's working directory, absolute. `None` when it has been deleted.
    pub cwd: Option<PathBuf>,
    /// `$HOME`, if it is set and absolute.
    pub home: Option<PathBuf>,
    /// The environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Path of this binary, with symlinks resolved.
    pub exe: PathBuf,
    /// The caller's user id.
    pub uid: u32,
    /// The caller's primary group id.
    pub gid: u32,
    /// True if this process runs inside an agent-sandbox sandbox.
    pub inside: bool,
}

impl Host {
    /// Reads the facts. Never fails: a missing fact is `None`, and the code that needs it reports the error.
    pub fn read() -> Self {
        #[allow(clippy::disallowed_methods, reason = "the only code that reads them")]
        let (cwd, env) =
            (std::env::current_dir().ok(), std::env::vars_os().collect::<BTreeMap<_, _>>());
        let home = env.get(OsStr::new("HOME")).map(PathBuf::from).filter(|home| home.is_absolute());
        Self {
            cwd,
            home,
            exe: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe")),
            uid: sandbox_linux::process::uid(),
            gid: sandbox_linux::process::gid(),
            inside: Path::new(RUNTIME_BINARY).try_exists().unwrap_or(false),
            env,
        }
    }

    /// Returns the value of a variable if it is set and not empty.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Returns the absolute directories of `$PATH`. A relative entry could name a different directory inside.
    pub fn search_path(&self) -> Vec<PathBuf> {
        let path = self.var("PATH").unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
        std::env::split_paths(path).filter(|dir| dir.is_absolute()).collect()
    }

    /// Returns `$XDG_CONFIG_HOME/agent-sandbox`, else `~/.config/agent-sandbox`.
    pub fn config_dir(&self) -> Option<PathBuf> {
        self.xdg("XDG_CONFIG_HOME", ".config")
    }

    /// Returns `$XDG_STATE_HOME/agent-sandbox`, else `~/.local/state/agent-sandbox`: trust records, run records.
    pub fn state_dir(&self) -> Option<PathBuf> {
        self.xdg("XDG_STATE_HOME", ".local/state")
    }

    /// Returns `$XDG_DATA_HOME/agent-sandbox`, else `~/.local/share/agent-sandbox`: sessions and their layers.
    pub fn data_dir(&self) -> Option<PathBuf> {
        self.xdg("XDG_DATA_HOME", ".local/share")
    }

    fn xdg(&self, name: &str, fallback: &str) -> Option<PathBuf> {
        // The XDG Base Directory Specification says to ignore relative values.
        let base = self.var(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
        let base = base.or_else(|| self.home.as_ref().map(|home| home.join(fallback)))?;
        Some(base.join("agent-sandbox"))
    }
}
