//! `rm`: sessions that are not needed any more.

use sandbox_core::Host;
use sandbox_layers::review::{self, Summary};
use sandbox_layers::session::{Lock, Selector, Session, SessionError, Sessions, State};
use sandbox_protocol::ExitCode;
use sandbox_sessions::session::{Matching, Session as Up};
use sandbox_sessions::{ControlError, Service};

use super::{bytes, here, service};
use crate::args::Flags;
use crate::args::sessions::Rm;
use crate::cmd::changes::{ChangesError, ask};
use crate::cmd::cow;
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio;

/// Removes the named sessions. All names are looked up, and the user is asked about work that was not
/// applied, before the first session goes.
pub(crate) fn run(rm: &Rm, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if rm.names.is_empty() {
        return Err(Failed::usage("`rm` needs the name of a session"));
    }
    let (mut up, mut kept) = (Vec::new(), Vec::new());
    let service = service::open_used(host)?;
    for name in &rm.names {
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
    kept.retain(|(_, session)| !up.iter().any(|up| is_layer(session, up)));
    let found = locked(kept, service.as_ref())?;
    let mut losing = Vec::new();
    for session in &up {
        let layer = own_layer(session, host)?.map(|(_, layer)| layer);
        losing.extend(layer.as_ref().and_then(Loss::of));
    }
    losing.extend(found.iter().filter_map(|(_, session, _)| Loss::of(session)));
    if !agreed(&losing, rm.yes, io)? {
        io.say("nothing was removed");
        return Ok(ExitCode::Failure.code());
    }
    let agreed = |id: &str| rm.yes || losing.iter().any(|loss| loss.id == id);
    if let Some(service) = &service {
        for session in up {
            remove_up(&session, service, &agreed, host, io)?;
        }
    }
    for (sessions, session, lock) in found {
        remove_kept(&sessions, &session, lock, io)?;
    }
    Ok(0)
}

/// Work that goes with a session.
struct Loss {
    id: String,
    text: String,
}

impl Loss {
    fn of(session: &Session) -> Option<Self> {
        let record = session.record();
        let text = format!("`{}` ({})", record.name, review::unapplied(session)?);
        Some(Self { id: record.id.clone(), text })
    }
}

fn agreed(losing: &[Loss], yes: bool, io: &mut Stdio<'_>) -> Result<bool, Failed> {
    if losing.is_empty() {
        return Ok(true);
    }
    let texts: Vec<&str> = losing.iter().map(|loss| loss.text.as_str()).collect();
    let question = format!("remove work that was not applied, of {}?", texts.join(", "));
    Ok(ask::confirm(&question, yes, io)?)
}

/// Locks sessions that nothing runs in.
fn locked(
    kept: Vec<(Sessions, Session)>,
    service: Option<&Service>,
) -> Result<Vec<(Sessions, Session, Lock)>, Failed> {
    let mut found = Vec::new();
    for (sessions, mut session) in kept {
        let_go(&mut session, service)?;
        let lock = session.lock()?;
        found.push((sessions, session, lock));
    }
    Ok(found)
}

/// Removes a session that stays up, with its layer. Work that came after the question stays.
fn remove_up(
    session: &Up,
    service: &Service,
    agreed: &dyn Fn(&str) -> bool,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Result<(), Failed> {
    service.end(session)?;
    let layer = locked(own_layer(session, host)?.into_iter().collect(), Some(service))?;
    for (_, kept, _) in &layer {
        if !agreed(&kept.record().id)
            && let Some(work) = review::unapplied(kept)
        {
            let name = session.name.as_str().to_owned();
            return Err(ChangesError::Unapplied { name, work }.into());
        }
    }
    service.remove(session)?;
    if layer.is_empty() {
        io.say(&format!("removed {}", session.name));
    }
    for (sessions, kept, lock) in layer {
        remove_kept(&sessions, &kept, lock, io)?;
    }
    Ok(())
}

fn remove_kept(
    sessions: &Sessions,
    session: &Session,
    lock: Lock,
    io: &mut Stdio<'_>,
) -> Result<(), Failed> {
    let told = tell(session);
    sessions.remove(session, lock)?;
    io.say(&format!("removed {told}"));
    Ok(())
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
        (Err(error), _) => Err(error.into()),
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

/// A session and what goes with it.
pub(crate) fn tell(session: &Session) -> String {
    let changes = Summary::of(session)
        .map_or_else(|_| "changes that cannot be read".into(), |summary| summary.to_string());
    format!("{}: {changes}; {}", session.record().name, bytes(session.size()))
}
