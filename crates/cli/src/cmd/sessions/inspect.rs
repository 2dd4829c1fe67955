//! `inspect`: everything that is known of a session.

use sandbox_core::Host;
use sandbox_sessions::backend::{Agent, Authorized, Observed};
use sandbox_sessions::session::Session;
use serde::Serialize;

use super::service;
use crate::args::Flags;
use crate::args::sessions::One;
use crate::failed::Outcome;
use crate::ui::Stdio;
use sandbox_linux::escape::name;

/// A session, as `--json` tells it.
#[derive(Serialize)]
struct Told<'s> {
    id: &'s str,
    name: &'s str,
    state: &'static str,
    backend: &'static str,
    project: String,
    handle: Option<String>,
    agent: Option<Agent>,
    cow: bool,
    policy: &'s str,
    created: u64,
    log: String,
    things: Vec<Thing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Authorized>,
}

/// Something that was made for it.
#[derive(Serialize)]
struct Thing {
    kind: &'static str,
    identity: String,
    made: bool,
}

/// Tells everything about a session.
pub(crate) fn run(one: &One, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let service = service::open(host)?;
    let session = service::chosen(&service, one.name.as_ref(), flags, host)?;
    if flags.json {
        return json(&session, host, io);
    }
    let Observed { state, handle, agent, .. } = service.observe(&session)?;
    let agent = agent.map_or_else(|| "none".to_owned(), agent_words);
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
        ("by", handle.unwrap_or_else(|| "nobody".into())),
        ("agent", agent),
        ("changes", if session.cow { "kept apart" } else { "in the project" }.into()),
        ("policy", session.policy.clone()),
        ("log", name(&service.data_dir().log(&session.id))),
        ("things", things.join(", ")),
    ] {
        io.data(&format!("{label:<8} {value}\n"));
    }
    if let Some(key) = service.authorized(&session) {
        let place = key.place.map(|place| format!(" in {}", name(&place))).unwrap_or_default();
        io.data(&format!("{:<8} for {}{place}: {}", "key", key.user, key.line));
    }
    Ok(0)
}

/// What became of an agent, in words.
fn agent_words(agent: Agent) -> String {
    let words = match (agent.running, agent.code) {
        (true, _) => "running".to_owned(),
        (false, Some(code)) => format!("ended with {code}"),
        (false, None) => "ended".to_owned(),
    };
    match agent.restarts {
        0 => words,
        1 => format!("{words}, restarted once"),
        count => format!("{words}, restarted {count} times"),
    }
}

/// The same for programs.
pub(crate) fn json(session: &Session, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let service = service::open(host)?;
    let Observed { state, handle, agent, .. } = service.observe(session)?;
    let things = service.things(session)?.into_iter().map(|thing| Thing {
        kind: thing.kind.as_str(),
        made: thing.made == sandbox_sessions::store::Made::Yes,
        identity: thing.identity,
    });
    let told = Told {
        id: session.id.as_str(),
        name: session.name.as_str(),
        state: state.as_str(),
        backend: session.backend.as_str(),
        project: name(&session.project),
        handle,
        agent,
        cow: session.cow,
        policy: &session.policy,
        created: session.created,
        log: name(&service.data_dir().log(&session.id)),
        things: things.collect(),
        key: service.authorized(session),
    };
    crate::cmd::json(&told, io);
    Ok(0)
}
