//! `prune`: what nobody will miss.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use sandbox_layers::review::{self, Summary};
use sandbox_layers::session::{LayerSession, LayerSessions, RunState, Selector};
use sandbox_linux::clock;
use sandbox_linux::escape::name;
use sandbox_policy::Host;
use sandbox_sessions::Service;
use sandbox_sessions::removal::let_go;
use sandbox_sessions::session::{Session as Up, Wanted};

use super::{here, rm, service};
use crate::args::Flags;
use crate::args::sessions::Prune;
use crate::cmd::ago;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, visible};

/// Removes sessions that hold no work and change nothing, were not used for long, or have lost their
/// base. Work that was not applied goes only with a session that is named.
pub(crate) fn run(prune: &Prune, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let sessions = sandbox_launch::layers::sessions(host)?;
    let going = going(prune, &sessions, flags, host, io)?;
    let broken = broken(prune, &sessions, io)?;
    // Without a record, too: what it would name may still be there.
    let service = if host.inside { None } else { Some(service::open(host)?) };
    let (down, strays) = match &service {
        Some(service) => (unused(service, prune.older_than, io)?, service.strays()?),
        None => (Vec::new(), Vec::new()),
    };
    for stray in &strays {
        io.say(&format!("{} ({} has it, and no record names it)", stray.identity, stray.backend));
    }
    if going.is_empty() && broken.is_empty() && down.is_empty() && strays.is_empty() {
        io.say("nothing to remove");
        return Ok(0);
    }
    if flags.dry_run || !agreed(prune, io)? {
        return Ok(0);
    }
    if let Some(service) = &service {
        down.iter().try_for_each(|session| service.remove(session))?;
        strays.iter().try_for_each(|stray| service.remove_stray(stray))?;
    }
    for mut session in sessions.list()? {
        let_go(&mut session, service.as_ref())?;
    }
    for Going { session, named } in going {
        // One that is in use by now stays, and so does work that it got meanwhile.
        if let Ok(lock) = session.lock()
            && (named || review::unapplied(&session).is_none())
        {
            sessions.remove(&session, lock)?;
        }
    }
    for dir in broken {
        sessions.remove_broken(&dir)?;
    }
    Ok(0)
}

/// Sessions that are down, keep nothing, and were brought up long ago.
fn unused(service: &Service, days: u64, io: &mut Stdio<'_>) -> Result<Vec<Up>, Failed> {
    let mut unused = service.sessions()?;
    let age = |session: &Up| clock::now().saturating_sub(session.created);
    unused.retain(|session| {
        session.wanted == Wanted::Down
            && !session.cow
            && age(session) >= days.saturating_mul(86_400)
    });
    for session in &unused {
        io.say(&format!("{}  (down, and made {} ago)", session.name, ago(age(session))));
    }
    Ok(unused)
}

/// A session that is to be removed.
struct Going {
    session: LayerSession,
    /// True when the user named it.
    named: bool,
}

fn going(
    prune: &Prune,
    sessions: &LayerSessions,
    flags: &Flags,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Result<Vec<Going>, Failed> {
    let broken = sessions.broken()?;
    let mut named = Vec::new();
    for word in prune.names.iter().filter(|word| !broken.iter().any(|(dir, _)| is_at(dir, word))) {
        let selector = Selector::named(here(flags, host), word.as_str());
        let session = sessions.find(&selector)?;
        // One that is in use says so, and by what.
        session.lock()?;
        named.push(session.record().id.clone());
    }
    let mut going = Vec::new();
    for session in sessions.list()? {
        let named = named.contains(&session.record().id);
        let why = if named { Some("named".into()) } else { reason(&session, prune.older_than, io) };
        if let Some(why) = why {
            io.say(&format!("{}  ({why})", tell(&session)));
            going.push(Going { session, named });
        }
    }
    Ok(going)
}

fn tell(session: &LayerSession) -> String {
    rm::tell(&session.record().name, Summary::of(session).ok(), session.size())
}

/// Directories of sessions whose record cannot be read. One that has a record may hold work.
fn broken(
    prune: &Prune,
    sessions: &LayerSessions,
    io: &mut Stdio<'_>,
) -> Result<Vec<PathBuf>, Failed> {
    let mut going = Vec::new();
    for (dir, error) in sessions.broken()? {
        let has_record = dir.join("session.json").try_exists().unwrap_or(true);
        if has_record && !prune.names.iter().any(|word| is_at(&dir, word)) {
            let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = format!(
                "kept: {} cannot be read ({error}); to remove it: agent-sandbox prune {}",
                name(&dir),
                visible(&id)
            );
            io.say(&text);
            continue;
        }
        io.say(&format!("{}  ({error})", name(&dir)));
        going.push(dir);
    }
    Ok(going)
}

fn is_at(dir: &Path, word: &str) -> bool {
    dir.file_name().is_some_and(|id| id == word)
}

fn reason(session: &LayerSession, days: u64, io: &mut Stdio<'_>) -> Option<String> {
    if matches!(session.state(), RunState::Running(_) | RunState::Held(_)) {
        return None;
    }
    let record = session.record();
    let gone = record.roots.iter().all(|root| !root.path.try_exists().unwrap_or(true));
    let unused = clock::now().saturating_sub(record.last_used());
    let why = if gone {
        "its base is gone".to_owned()
    } else if unused >= days.saturating_mul(86_400) {
        format!("not used for {}", ago(unused))
    } else {
        return review::unapplied(session).is_none().then(|| "nothing is changed".into());
    };
    match review::unapplied(session) {
        None => Some(why),
        Some(work) => {
            let name = visible(&record.name);
            let text = format!(
                "kept: {name} has work that was not applied: {work} ({why}); to remove it: agent-sandbox rm {name}"
            );
            io.say(&text);
            None
        }
    }
}

/// Whether the user wants it.
fn agreed(prune: &Prune, io: &mut Stdio<'_>) -> Result<bool, Failed> {
    if prune.yes {
        return Ok(true);
    }
    if !io.interactive {
        return Err(Failed::usage(
            "nobody can be asked here: pass `--yes`, or `--dry-run` to look",
        ));
    }
    io.say("remove these for good? [y/N]");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}
