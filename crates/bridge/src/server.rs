//! Configuration of a server, read before the first request.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_policy::Host;
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use crate::audit::Audit;
use crate::list::{HostList, ListError};
use crate::shared_dirs::{SharedDirError, SharedDirs};

/// Settings of a server of host commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Enforced list.
    pub list: PathBuf,
    /// Socket to listen on. Without one, the request is read from `SSH_ORIGINAL_COMMAND`.
    pub listen: Option<PathBuf>,
    /// List of a session, which must also allow a request.
    pub session_list: Option<PathBuf>,
    /// Directory for locks, the audit log and an empty working directory.
    pub state: Option<PathBuf>,
    /// Path of the audit log, instead of the one in the lists.
    pub audit: Option<PathBuf>,
    /// True if standard input is a lock file that this process signs.
    pub locked: bool,
}

/// Reason why a server cannot run.
#[derive(Debug, Error)]
pub enum ServeError {
    /// List that cannot be used.
    #[error(transparent)]
    List(#[from] ListError),
    /// Shared directory that cannot be opened.
    #[error("cannot open the directories shared with the container")]
    SharedDirs(#[source] io::Error),
    /// State directory that cannot be used.
    #[error("cannot use the state directory `{}`", .0.display())]
    State(PathBuf, #[source] io::Error),
    /// Missing state directory.
    #[error("cannot find a home directory for the state")]
    NoHome,
    /// Socket that cannot be bound.
    #[error("cannot listen on `{}`", .0.display())]
    Listen(PathBuf, #[source] io::Error),
    /// System call that failed while serving.
    #[error("cannot continue serving")]
    Serve(#[source] io::Error),
}

impl Hint for ServeError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::List(error) => error.hint(),
            Self::SharedDirs(_) => Some("each `host` of `mounts` must be a directory".into()),
            Self::NoHome | Self::State(..) => Some("pass a directory with `--state`".into()),
            Self::Listen(..) | Self::Serve(_) => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}

/// Server of host commands, ready for requests.
#[derive(Debug)]
pub(crate) struct Server {
    /// Lists that must allow a request, the enforced one first.
    pub lists: Vec<HostList>,
    pub shared_dirs: SharedDirs,
    pub audit: Audit,
    /// Empty directory in which a command runs if it has no other working directory.
    pub empty: PathBuf,
    /// File of this program, which is never run for a request.
    pub own: PathBuf,
    pub env: Vec<(String, OsString)>,
    /// Directory of locks for concurrent requests.
    pub slots: PathBuf,
}

impl Server {
    pub(crate) fn open(options: &Options, host: &Host) -> Result<Self, ServeError> {
        let lists = lists(options)?;
        let last = lists.last().cloned().unwrap_or_default();
        let state = match &options.state {
            Some(state) => state.clone(),
            None => host.state_dir().ok_or(ServeError::NoHome)?.join("host-commands"),
        };
        // Made absolute, because requests change the working directory.
        let wrong = |source| ServeError::State(state.clone(), source);
        let state = std::path::absolute(&state).map_err(wrong)?;
        let empty = prepare(&state).map_err(|source| ServeError::State(state.clone(), source))?;
        let named = lists.iter().find_map(|list| list.audit.clone());
        let log = options.audit.clone().or(named);
        let log = log.unwrap_or_else(|| state.join("audit.jsonl"));
        if let Some(folder) = options.audit.as_deref().and_then(Path::parent) {
            let wrong = |source| ServeError::State(folder.to_owned(), source);
            std::fs::create_dir_all(folder).map_err(wrong)?;
        }
        Ok(Self {
            shared_dirs: SharedDirs::open(&last.mounts).map_err(ServeError::SharedDirs)?,
            env: environment(&lists[0].path, host),
            lists,
            audit: Audit::new(log),
            empty,
            own: host.exe.clone(),
            slots: state,
        })
    }

    /// Returns the search path for programs.
    pub(crate) fn path(&self) -> &[PathBuf] {
        &self.lists[0].path
    }

    /// Returns the strictest limit of the lists.
    pub(crate) fn limit<T: Ord>(&self, of: impl Fn(&HostList) -> T) -> Option<T> {
        self.lists.iter().map(of).min()
    }

    /// Returns true if a directory of the container is isolated from the host and not shared.
    pub(crate) fn is_apart(&self, asked: &Path) -> bool {
        let mut apart = self.lists.iter().flat_map(|list| &list.apart);
        let outside =
            || matches!(self.shared_dirs.work_dir(asked), Err(SharedDirError::Outside(_)));
        apart.any(|dir| asked.starts_with(dir)) && outside()
    }
}

/// Returns the enforced list, then the session's. A session of the user's own needs no enforced list.
fn lists(options: &Options) -> Result<Vec<HostList>, ListError> {
    let session = options.session_list.as_deref().map(HostList::read).transpose()?;
    let enforced = match HostList::read_enforced(&options.list) {
        Err(ListError::Read { source, .. })
            if session.is_some() && source.kind() == io::ErrorKind::NotFound =>
        {
            None
        }
        read => Some(read?),
    };
    Ok(enforced.into_iter().chain(session).collect())
}

fn prepare(state: &Path) -> io::Result<PathBuf> {
    std::fs::create_dir_all(state)?;
    let empty = state.join("empty");
    std::fs::create_dir_all(&empty)?;
    empty.canonicalize()
}

/// Returns the complete environment of every command. No variable of the caller is included.
fn environment(path: &[PathBuf], host: &Host) -> Vec<(String, OsString)> {
    let joined = std::env::join_paths(path).unwrap_or_default();
    let mut env = vec![("PATH".to_owned(), joined), ("LANG".into(), "C.UTF-8".into())];
    for (name, value) in [("PAGER", "cat"), ("SYSTEMD_PAGER", "cat"), ("TERM", "dumb")] {
        env.push((name.into(), value.into()));
    }
    for name in ["HOME", "USER", "LOGNAME"] {
        env.extend(host.var(name).map(|value| (name.to_owned(), value.to_owned())));
    }
    env
}
