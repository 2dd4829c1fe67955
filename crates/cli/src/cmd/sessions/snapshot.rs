//! `snapshot`, `restore` and `fork`.

use sandbox_policy::Host;

use super::chosen;
use super::freeze::freeze;
use crate::args::Flags;
use crate::cmd::json;
use crate::failed::Outcome;
use crate::ui::Stdio;

/// Creates a snapshot of a session, and prints its name.
pub(crate) fn take(name: Option<&str>, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let (sessions, mut session) = chosen(None, flags, host)?;
    let name = sessions.snapshot(&mut session, name, &freeze(host))?;
    if flags.json {
        let session = &session.record().name;
        json(&serde_json::json!({ "session": session, "snapshot": name }), io);
    } else {
        io.data(&format!("{name}\n"));
    }
    Ok(0)
}

/// Restores a session to a snapshot.
pub(crate) fn restore(name: &str, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let (sessions, mut session) = chosen(None, flags, host)?;
    let lock = session.lock()?;
    let saved = sessions.restore(&mut session, name, &lock)?;
    let session = &session.record().name;
    io.say(&format!("Restored `{session}` to `{name}`. The previous state is snapshot `{saved}`"));
    Ok(0)
}

/// Creates a session from an existing one.
pub(crate) fn fork(new: &str, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let (sessions, mut session) = chosen(None, flags, host)?;
    let fork = sessions.fork(&mut session, new, &freeze(host))?;
    let (from, to) = (&session.record().name, &fork.record().name);
    io.say(&format!("Created `{to}` from `{from}`. To use it: agent-sandbox -s {to} COMMAND"));
    Ok(0)
}
