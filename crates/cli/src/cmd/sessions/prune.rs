//! `prune`: what nobody will miss.

use std::io::BufRead;

use sandbox_control::Service;
use sandbox_control::session::{Session as Up, Wanted};
use sandbox_core::Host;
use sandbox_cowfs::session::{Session, State};

use super::{ago, now, rm, service};
use crate::args::{Flags, Prune};
use crate::cmd::report::name;
use crate::cmd::{cow, summary};
use crate::run::{Failed, Outcome};
use crate::ui::Stdio;

/// Removes sessions that change nothing, that nobody has used for long, or whose base is gone.
pub(crate) fn run(prune: &Prune, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let sessions = cow::sessions(host)?;
    let mut going = Vec::new();
    for session in sessions.list()? {
        if let Some(why) = reason(&session, prune.older_than) {
            io.say(&format!("{}  ({why})", rm::tell(&session)));
            going.push(session);
        }
    }
    let broken = sessions.broken()?;
    for (dir, error) in &broken {
        io.say(&format!("{}  ({error})", name(dir)));
    }
    let service = service::open_used(host)?;
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
        rm::let_go(&mut session, service.as_ref())?;
    }
    for session in going {
        // One that somebody has begun to use meanwhile stays.
        if let Ok(lock) = session.lock() {
            sessions.remove(&session, lock)?;
        }
    }
    for (dir, _) in broken {
        sessions.remove_broken(&dir)?;
    }
    Ok(0)
}

/// Sessions that are down, keep nothing, and were brought up long ago.
fn unused(service: &Service, days: u64, io: &mut Stdio<'_>) -> Result<Vec<Up>, Failed> {
    let mut unused = service.sessions()?;
    let age = |session: &Up| now().saturating_sub(session.created);
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

fn reason(session: &Session, days: u64) -> Option<String> {
    if matches!(session.state(), State::Running(_) | State::Held(_)) {
        return None;
    }
    let record = session.record();
    if record.roots.iter().all(|root| !root.path.try_exists().unwrap_or(true)) {
        return Some("its base is gone".into());
    }
    let unused = now().saturating_sub(record.last_used());
    if unused >= days.saturating_mul(86_400) {
        return Some(format!("not used for {}", ago(unused)));
    }
    let empty = summary::of(session).is_ok_and(|summary| summary.is_empty());
    (empty && record.snapshots.is_empty()).then(|| "nothing is changed".into())
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
