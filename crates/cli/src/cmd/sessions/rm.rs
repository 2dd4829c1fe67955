//! `rm`: sessions that are not needed any more.

use sandbox_control::session::{Matching, Session as Up};
use sandbox_control::{ControlError, Service};
use sandbox_core::Host;
use sandbox_cowfs::session::{Session, Sessions, State};

use super::{bytes, chosen, service};
use crate::args::Flags;
use crate::cmd::{cow, summary};
use crate::run::{Failed, Outcome};
use crate::ui::Stdio;

/// Removes the named sessions. All names are looked up before the first session goes.
pub(crate) fn run(names: &[String], flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if names.is_empty() {
        return Err(Failed::usage("`rm` needs the name of a session"));
    }
    let (mut up, mut kept) = (Vec::new(), Vec::new());
    let service = service::open_used(host)?;
    for name in names {
        match service.as_ref().map(|service| service.find(name, Matching::Prefix)) {
            Some(Ok(session)) => up.push(session),
            Some(Err(error)) if !matches!(error, ControlError::Unknown(_)) => {
                return Err(error.into());
            }
            _ => kept.push(chosen(Some(name), flags, host)?),
        }
    }
    for session in up {
        if let Some(service) = &service {
            service.remove(&session)?;
            kept.extend(own_layer(&session, host)?);
            if !session.cow {
                io.say(&format!("removed {}", session.name));
            }
        }
    }
    let mut found = Vec::new();
    for (sessions, mut session) in kept {
        let_go(&mut session, service.as_ref())?;
        let lock = session.lock()?;
        found.push((sessions, session, lock));
    }
    for (sessions, session, lock) in found {
        let told = tell(&session);
        sessions.remove(&session, lock)?;
        io.say(&format!("removed {told}"));
    }
    Ok(0)
}

/// Takes a layer out of the hands of a session that no record knows any more. Whether it was.
pub(crate) fn let_go(session: &mut Session, service: Option<&Service>) -> Result<bool, Failed> {
    let State::Held(holder) = session.state() else { return Ok(false) };
    let find = |service: &Service| service.find(&holder, Matching::Name);
    if !matches!(service.map(find), None | Some(Err(ControlError::Unknown(_)))) {
        return Ok(false);
    }
    session.release(&holder)?;
    Ok(true)
}

/// The layer of a session that keeps its changes apart.
fn own_layer(session: &Up, host: &Host) -> Result<Option<(Sessions, Session)>, Failed> {
    if !session.cow {
        return Ok(None);
    }
    let sessions = cow::sessions(host)?;
    let kept = sessions.of(&session.project, session.name.as_str())?;
    Ok(kept.map(|kept| (sessions, kept)))
}

/// Removes what a session kept apart.
pub(crate) fn forget_layer(session: &Up, host: &Host) -> Result<(), Failed> {
    if let Some((sessions, kept)) = own_layer(session, host)? {
        let lock = kept.lock()?;
        sessions.remove(&kept, lock)?;
    }
    Ok(())
}

/// A session and what goes with it.
pub(crate) fn tell(session: &Session) -> String {
    let changes = summary::of(session)
        .map_or_else(|_| "changes that cannot be read".into(), |summary| summary::words(&summary));
    format!("{}: {changes}; {}", session.record().name, bytes(session.size()))
}
