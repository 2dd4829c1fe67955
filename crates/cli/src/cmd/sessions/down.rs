//! `down`: stops sessions and removes their resources. Changes and logs are kept.

use sandbox_policy::Host;
use sandbox_sessions::session::Session;

use super::service;
use crate::args::Flags;
use crate::args::sessions::Down;
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio;

/// Stops sessions. Finds all names before it stops the first one.
pub(crate) fn run(down: &Down, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let service = service::open(host)?;
    let chosen = if down.all {
        service.sessions()?
    } else if down.names.is_empty() {
        vec![service::chosen(&service, None, flags, host)?]
    } else {
        let find = |name| service::chosen(&service, Some(name), flags, host);
        down.names.iter().map(find).collect::<Result<_, _>>()?
    };
    for session in chosen {
        let stopped = service.down(&session)?;
        service::warn(&service, io);
        settle(&session, host)?;
        if stopped {
            io.say(&format!("Stopped session `{}`", session.name));
        } else if !down.all {
            io.say(&format!("session `{}` was not running", session.name));
        }
    }
    Ok(0)
}

/// Records the base of a session's changes, which a killed session could not do at its end.
pub(crate) fn settle(session: &Session, host: &Host) -> Result<(), Failed> {
    if !session.cow {
        return Ok(());
    }
    let kept =
        sandbox_launch::layers::sessions(host)?.of(&session.project, session.name.as_str())?;
    if let Some(mut kept) = kept
        && let Ok(lock) = kept.lock()
    {
        kept.settle(&lock)?;
    }
    Ok(())
}
