//! `snapshot`, `restore` and `fork`.

use sandbox_policy::Host;

use super::chosen;
use super::freeze::freeze;
use crate::args::Flags;
use crate::failed::Outcome;
use crate::ui::Stdio;

/// Keeps the present state.
pub(crate) fn take(name: Option<&str>, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let (sessions, mut session) = chosen(None, flags, host)?;
    let name = sessions.snapshot(&mut session, name, &freeze(host))?;
    io.data(&format!("{name}\n"));
    Ok(0)
}

/// Goes back to a state that was kept.
pub(crate) fn restore(name: &str, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let (sessions, mut session) = chosen(None, flags, host)?;
    let lock = session.lock()?;
    let kept = sessions.restore(&mut session, name, &lock)?;
    let called = &session.record().name;
    io.say(&format!("{called} is back at {name}; what it was is kept as {kept}"));
    Ok(0)
}

/// Branches off.
pub(crate) fn fork(new: &str, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let (sessions, mut session) = chosen(None, flags, host)?;
    let fork = sessions.fork(&mut session, new, &freeze(host))?;
    let (from, to) = (&session.record().name, &fork.record().name);
    io.say(&format!("{to} goes on from {from}: agent-sandbox --session {to} COMMAND"));
    Ok(0)
}
