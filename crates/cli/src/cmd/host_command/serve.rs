//! `host-command serve`: what may be asked for, and where requests come from.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_core::Host;
use sandbox_core::host_command::place::{PlaceError, Places};
use sandbox_core::host_command::{HostList, ListError};
use thiserror::Error;

use super::audit::Audit;
use super::{broker, forced};
use crate::args::host_command::Serve;
use crate::run::{Failed, Outcome};
use crate::ui::Stdio;

/// Everything that decides about requests, read before the first one.
#[derive(Debug)]
pub(super) struct Policy {
    /// The lists that must allow a request, the enforced one first.
    pub lists: Vec<HostList>,
    pub places: Places,
    pub audit: Audit,
    /// Where a command runs that no directory is known for: there is nothing in it.
    pub empty: PathBuf,
    /// This program's own file, which is never run for a request.
    pub own: PathBuf,
    pub env: Vec<(String, std::ffi::OsString)>,
    /// Locks for parallel runs.
    pub slots: PathBuf,
}

#[derive(Debug, Error)]
pub(super) enum ServeError {
    #[error(transparent)]
    List(#[from] ListError),
    #[error("cannot open the directories that are shared with the container")]
    Places(#[source] io::Error),
    #[error("cannot use the state directory `{}`", .0.display())]
    State(PathBuf, #[source] io::Error),
    #[error("there is no home directory to keep the state in")]
    NoHome,
    #[error("cannot listen at `{}`", .0.display())]
    Listen(PathBuf, #[source] io::Error),
    #[error("cannot go on serving")]
    Serve(#[source] io::Error),
}

impl From<ServeError> for Failed {
    fn from(error: ServeError) -> Self {
        let hint = match &error {
            ServeError::List(error) => error.hint(),
            ServeError::Places(_) => Some("each `host` of `mounts` must be a directory".into()),
            ServeError::NoHome | ServeError::State(..) => {
                Some("name a directory with `--state`".into())
            }
            ServeError::Listen(..) | ServeError::Serve(_) => None,
        };
        Self { error: Box::new(error), hint, code: 1 }
    }
}

/// Serves.
pub(super) fn run(serve: &Serve, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let policy = Policy::read(serve, host)?;
    match &serve.listen {
        Some(socket) => broker::run(&policy, socket, io),
        None => forced::run(&policy, host),
    }
}

impl Policy {
    fn read(serve: &Serve, host: &Host) -> Result<Self, ServeError> {
        let lists = lists(serve)?;
        let last = lists.last().cloned().unwrap_or_default();
        let state = match &serve.state {
            Some(state) => state.clone(),
            None => host.state_dir().ok_or(ServeError::NoHome)?.join("host-commands"),
        };
        // Requests run elsewhere, and still write here.
        let wrong = |source| ServeError::State(state.clone(), source);
        let state = std::path::absolute(&state).map_err(wrong)?;
        let empty = prepare(&state).map_err(|source| ServeError::State(state.clone(), source))?;
        let named = lists.iter().find_map(|list| list.audit.clone());
        let log = serve.audit.clone().or(named);
        let log = log.unwrap_or_else(|| state.join("audit.jsonl"));
        if let Some(folder) = serve.audit.as_deref().and_then(Path::parent) {
            let wrong = |source| ServeError::State(folder.to_owned(), source);
            std::fs::create_dir_all(folder).map_err(wrong)?;
        }
        Ok(Self {
            places: Places::open(&last.mounts).map_err(ServeError::Places)?,
            env: environment(&lists[0].path, host),
            lists,
            audit: Audit::new(log),
            empty,
            own: host.exe.clone(),
            slots: state,
        })
    }

    /// Where programs are looked for.
    pub(super) fn path(&self) -> &[PathBuf] {
        &self.lists[0].path
    }

    /// The strictest of the lists' limits.
    pub(super) fn limit<T: Ord>(&self, of: impl Fn(&HostList) -> T) -> Option<T> {
        self.lists.iter().map(of).min()
    }

    /// Whether a directory of the container is one whose changes the host does not see, and is not shared.
    pub(super) fn is_apart(&self, asked: &Path) -> bool {
        let mut apart = self.lists.iter().flat_map(|list| &list.apart);
        let outside = || matches!(self.places.work_dir(asked), Err(PlaceError::Outside(_)));
        apart.any(|dir| asked.starts_with(dir)) && outside()
    }
}

/// The enforced list, then the session's. A session of the user's own needs no enforced one.
fn lists(serve: &Serve) -> Result<Vec<HostList>, ListError> {
    let session = serve.session_list.as_deref().map(HostList::read).transpose()?;
    let enforced = match HostList::read(&serve.list) {
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

/// What every command gets, and nothing else: no variable of the caller's decides anything.
fn environment(path: &[PathBuf], host: &Host) -> Vec<(String, std::ffi::OsString)> {
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
