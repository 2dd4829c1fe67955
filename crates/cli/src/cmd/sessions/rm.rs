//! `rm`: sessions that are not needed any more.

use sandbox_control::session::{Matching, Session as Up};
use sandbox_control::{ControlError, Service};
use sandbox_core::Host;
use sandbox_cowfs::session::{Selector, Session, SessionError, Sessions, State};

use super::{bytes, here, service, unknown};
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
        match meant(name, service.as_ref(), flags, host)? {
            Meant::Up(session) if up.contains(&session) => {}
            Meant::Up(session) => up.push(session),
            Meant::Kept(sessions, session) => {
                let id = &session.record().id;
                if !kept.iter().any(|(_, other): &(Sessions, Session)| other.record().id == *id) {
                    kept.push((sessions, session));
                }
            }
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

/// A session that stays up, or one that only keeps changes.
enum Meant {
    Up(Up),
    Kept(Sessions, Session),
}

/// The session of this name; else the only one, of either kind, whose name begins so.
fn meant(
    name: &str,
    service: Option<&Service>,
    flags: &Flags,
    host: &Host,
) -> Result<Meant, Failed> {
    let up = |matching| match service.map(|service| service.find(name, matching)) {
        None | Some(Err(ControlError::Unknown(_))) => Ok(None),
        Some(found) => found.map(Some),
    };
    if let Some(session) = up(Matching::Name)? {
        return Ok(Meant::Up(session));
    }
    let sessions = cow::sessions(host)?;
    let selector = Selector::named(here(flags, host), name);
    let kept = sessions.find(&selector);
    let is_whole = |kept: &Session| kept.record().name == name || kept.record().id == name;
    match (kept, up(Matching::Prefix)?) {
        (Ok(kept), None) => Ok(Meant::Kept(sessions, kept)),
        (Ok(kept), Some(_)) if is_whole(&kept) => Ok(Meant::Kept(sessions, kept)),
        (Ok(kept), Some(session)) if !is_layer(&kept, &session) => {
            let matches = [session.name.as_str(), kept.record().name.as_str()];
            let matches = matches.map(|name| format!("`{name}`")).to_vec();
            Err(ControlError::Ambiguous { word: name.into(), matches }.into())
        }
        (Ok(_) | Err(SessionError::Unknown(_)), Some(session)) => Ok(Meant::Up(session)),
        (Err(error), _) => Err(unknown(error)),
    }
}

/// Whether these are one session and its changes.
fn is_layer(kept: &Session, up: &Up) -> bool {
    let record = kept.record();
    up.cow && record.name == up.name.as_str() && record.project == up.project
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
