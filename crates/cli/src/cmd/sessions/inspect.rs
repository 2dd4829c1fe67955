//! `inspect`: shows session details.

use sandbox_policy::Host;
use sandbox_sessions::backend::Observed;
use sandbox_sessions::listing::Details;
use sandbox_sessions::session::Session;

use super::service;
use crate::args::Flags;
use crate::args::sessions::One;
use crate::failed::Outcome;
use crate::ui::Stdio;
use sandbox_linux::escape::name;

/// Prints the details of a session.
pub(crate) fn run(one: &One, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let service = service::open(host)?;
    let session = service::chosen(&service, one.name.as_ref(), flags, host)?;
    if flags.json {
        return json(&session, host, io);
    }
    let Observed { state, handle, agent, .. } = service.observe(&session)?;
    let agent = agent.map_or_else(|| "none".to_owned(), |agent| agent.to_string());
    let things: Vec<String> = service
        .things(&session)?
        .iter()
        .map(|thing| format!("{} {}", thing.kind.as_str(), thing.identity))
        .collect();
    for (label, value) in [
        ("name", session.name.as_str().to_owned()),
        ("id", session.id.as_str().to_owned()),
        ("state", state.as_str().to_owned()),
        ("backend", session.backend.to_string()),
        ("project", name(&session.project)),
        ("handle", handle.unwrap_or_else(|| "none".into())),
        ("agent", agent),
        ("changes", if session.cow { "isolated" } else { "in the project" }.into()),
        ("policy", session.policy.clone()),
        ("log", name(&service.data_dir().log(&session.id))),
        ("resources", things.join(", ")),
    ] {
        io.data(&format!("{label:<9} {value}\n"));
    }
    if let Some(key) = service.authorized(&session) {
        let place = key.place.map(|place| format!(" in {}", name(&place))).unwrap_or_default();
        io.data(&format!("{:<9} for {}{place}: {}", "key", key.user, key.line));
    }
    Ok(0)
}

/// Prints [`Details`] for programs.
pub(crate) fn json(session: &Session, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let service = service::open(host)?;
    crate::cmd::json(&Details::of(&service, session)?, io);
    Ok(0)
}
