//! Sessions from outside: bring up, take down, run something in them; list, remove, keep a point, go
//! back, branch off, look back.

pub(crate) mod service;
pub(crate) mod up;
pub(crate) mod supervise;
pub(crate) mod exec;
pub(crate) mod down;
pub(crate) mod logs;
pub(crate) mod inspect;
pub(crate) mod serve;
pub(crate) mod ps;
pub(crate) mod rm;
pub(crate) mod prune;
pub(crate) mod snapshot;
pub(crate) mod history;

use sandbox_core::Host;
use sandbox_layers::session::{Selector, Session, Sessions};

use super::cow;
use crate::args::Flags;
use crate::failed::Failed;

/// The session that is meant: the named one, else the latest one of this directory.
pub(crate) fn chosen(
    name: Option<&String>,
    flags: &Flags,
    host: &Host,
) -> Result<(Sessions, Session), Failed> {
    let sessions = cow::sessions(host)?;
    let directory = here(flags, host);
    let name = name.or(flags.session.as_ref()).cloned();
    let session = sessions.find(&Selector { directory, name })?;
    Ok((sessions, session))
}

/// Where the user stands, by its real path.
pub(crate) fn here(flags: &Flags, host: &Host) -> std::path::PathBuf {
    let here = flags.cwd.clone().or_else(|| host.cwd.clone()).unwrap_or_default();
    std::fs::canonicalize(&here).unwrap_or(here)
}

/// Bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    let (mut rest, mut unit) = (count, 0);
    while rest >= 10_000 && unit < 4 {
        rest /= 1024;
        unit += 1;
    }
    format!("{rest} {}", ["B", "KiB", "MiB", "GiB", "TiB"][unit])
}

/// A stretch of time for people.
pub(crate) fn ago(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
