//! `rm`: sessions that are not needed any more.

use sandbox_core::Host;
use sandbox_cowfs::session::Session;

use super::{bytes, chosen};
use crate::args::Flags;
use crate::cmd::summary;
use crate::run::{Failed, Outcome};
use crate::ui::Stdio;

/// Removes the named sessions. All names are looked up before the first session goes.
pub(crate) fn run(names: &[String], flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let mut found = Vec::new();
    for name in names {
        let (sessions, session) = chosen(Some(name), flags, host)?;
        let lock = session.lock()?;
        found.push((sessions, session, lock));
    }
    if found.is_empty() {
        return Err(Failed::usage("`rm` needs the name of a session"));
    }
    for (sessions, session, lock) in found {
        let told = tell(&session);
        sessions.remove(&session, lock)?;
        io.say(&format!("removed {told}"));
    }
    Ok(0)
}

/// A session and what goes with it.
pub(crate) fn tell(session: &Session) -> String {
    let changes = summary::of(session)
        .map_or_else(|_| "changes that cannot be read".into(), |summary| summary::words(&summary));
    format!("{}: {changes}; {}", session.record().name, bytes(session.size()))
}
