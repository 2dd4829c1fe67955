//! The process of a session outside: what it does before it runs the sandbox.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use sandbox_linux::pty::{self, Size};
use sandbox_linux::{fd, process, socket};

use super::holder;
use super::keeper::{self, Logs};
use crate::error::ControlError;
use crate::place::Place;
use crate::session::{Session, SessionId};
use crate::store::Store;

/// What is on record of a session that is about to be run.
pub fn recall(place: &Place, id: &str) -> Result<Session, ControlError> {
    let unknown = || ControlError::Unknown(id.to_owned());
    let id = SessionId::parse(id).ok_or_else(unknown)?;
    Store::open(&place.database())?.get(&id)?.ok_or_else(unknown)
}

/// Leaves the caller behind and runs `body` in a process that nobody waits for. It has the
/// session's socket as descriptor 0, and a terminal whose other end goes to the log as 1 and 2.
///
/// The caller must be single-threaded, with the lock as descriptor 1 and the log as 2.
pub fn detach(place: &Place, session: &Session, body: impl FnOnce() -> i32) -> io::Result<()> {
    let logs = Logs {
        present: place.log(&session.id),
        before: place.old_log(&session.id),
        runtime: place.runtime(&session.id),
    };
    process::fork(|| {
        // Held until this process ends; the sandbox's own processes do not get it.
        let Ok(_lock) = settle_in(&logs) else { return 125 };
        body()
    })
    .map(drop)
}

fn settle_in(logs: &Logs) -> io::Result<OwnedFd> {
    process::lead_session()?;
    let lock = holder::sign(socket::copy(io::stdout().as_fd())?)?;
    let (ours, theirs) = pty::open(Size::default())?;
    for number in [1, 2] {
        fd::replace(number, &theirs)?;
    }
    drop(theirs);
    let mut ours = Some(ours);
    process::fork(|| match ours.take() {
        Some(ours) => i32::from(keeper::keep(ours, logs).is_err()),
        None => 1,
    })?;
    Ok(lock)
}
