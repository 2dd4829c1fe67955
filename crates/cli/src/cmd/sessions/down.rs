//! `down`: what was made for a session goes, its changes and its log stay.

use sandbox_policy::Host;
use sandbox_sessions::session::Session;

use super::service;
use crate::args::Flags;
use crate::args::sessions::Down;
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio;

/// Takes sessions down. All names are looked up before the first one goes.
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
        let word = if service.down(&session)? { "is down" } else { "was not up" };
        service::warn(&service, io);
        settle(&session, host)?;
        if !down.all || word == "is down" {
            io.say(&format!("{} {word}", session.name));
        }
    }
    Ok(0)
}

/// What the changes of a session stand on is recorded at the end of its run; of one that was killed
/// that is done now.
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
