//! Sessions as `ps` and `inspect` tell them.

use std::fmt;

use sandbox_layers::review::Summary;
use sandbox_layers::session::{LayerSession, LayerSessions, RunState};
use sandbox_linux::escape::name;
use serde::Serialize;

use crate::backend::{Agent, Authorized, Observed};
use crate::error::ControlError;
use crate::service::{Seen, Service};
use crate::session::Session;
use crate::store::Made;

/// One session, whether it stays up or only keeps changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its state in one word.
    pub state: &'static str,
    /// Its process.
    pub pid: Option<i32>,
    /// Backend that keeps it up; nothing for a session that only keeps changes.
    pub backend: Option<&'static str>,
    /// State of the agent.
    pub agent: Option<Agent>,
    /// Engine that keeps its changes; nothing where they go straight into the project.
    pub engine: Option<String>,
    /// The project.
    pub project: String,
    /// Directories that it stands on.
    pub base: Vec<String>,
    /// Number of changed files.
    pub files: Option<usize>,
    /// Size of the changes.
    pub bytes: u64,
    /// Seconds since the epoch.
    pub created: u64,
    /// Seconds since the epoch.
    pub used: u64,
    /// Number of snapshots.
    pub snapshots: usize,
    /// The session that it goes on from.
    pub parent: Option<String>,
}

/// Lists the sessions that keep changes, and those that stay up, the latest last.
pub fn list(layers: &LayerSessions, seen: Vec<Seen>) -> Result<Vec<Line>, ControlError> {
    let mut lines: Vec<Line> = layers.list()?.iter().map(line).collect();
    for seen in seen {
        join(&mut lines, seen);
    }
    Ok(lines)
}

/// Returns the state of a session that only keeps changes.
fn state(session: &LayerSession) -> (&'static str, Option<i32>) {
    match session.state() {
        RunState::Running(pid) => ("running", Some(pid).filter(|pid| *pid > 0)),
        // Up by its record: what its container does, the engine knows.
        RunState::Held(_) => ("up", None),
        RunState::Stopped => ("stopped", None),
        RunState::Killed => ("killed", None),
    }
}

fn line(session: &LayerSession) -> Line {
    let record = session.record();
    let (state, pid) = state(session);
    let summary = Summary::of(session).ok();
    Line {
        id: record.id.clone(),
        name: record.name.clone(),
        state,
        pid,
        backend: None,
        agent: None,
        engine: Some(record.engine.to_string()),
        project: name(&record.project),
        base: record.roots.iter().map(|root| name(&root.path)).collect(),
        files: summary.map(|summary| summary.files + summary.git),
        bytes: session.size(),
        created: record.created,
        used: record.last_used(),
        snapshots: record.snapshots.len(),
        parent: record.parent.clone(),
    }
}

/// Adds a session that stays up. With its layer it is one session, under one name.
fn join(lines: &mut Vec<Line>, seen: Seen) {
    let Seen { session, observed } = seen;
    let (project, title) = (name(&session.project), session.name.as_str());
    let same = |line: &&mut Line| session.cow && line.name == title && line.project == project;
    let own = Line {
        id: session.id.as_str().to_owned(),
        name: title.to_owned(),
        state: observed.state.as_str(),
        pid: observed.pid,
        backend: Some(session.backend.as_str()),
        agent: observed.agent,
        engine: None,
        project: project.clone(),
        base: vec![project.clone()],
        files: None,
        bytes: 0,
        created: session.created,
        used: session.created,
        snapshots: 0,
        parent: None,
    };
    match lines.iter_mut().find(same) {
        Some(line) => {
            let Line { id, state, pid, backend, agent, .. } = own;
            let joined = (id, state, pid.or(line.pid), backend, agent);
            (line.id, line.state, line.pid, line.backend, line.agent) = joined;
        }
        None => lines.push(own),
    }
}

/// Everything about a session that stays up.
#[derive(Debug, Serialize)]
pub struct Told<'s> {
    /// Its id.
    pub id: &'s str,
    /// Its name.
    pub name: &'s str,
    /// Its state in one word.
    pub state: &'static str,
    /// The backend.
    pub backend: &'static str,
    /// The project.
    pub project: String,
    /// Process or container behind it.
    pub handle: Option<String>,
    /// State of the agent in words.
    pub agent: Option<Agent>,
    /// True when its changes are kept apart.
    pub cow: bool,
    /// Hash of the policy.
    pub policy: &'s str,
    /// Seconds since the epoch.
    pub created: u64,
    /// Path of the log.
    pub log: String,
    /// Everything that was made for it.
    pub things: Vec<Thing>,
    /// The SSH key that lets it in on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Authorized>,
}

/// Something that was made for a session.
#[derive(Debug, Serialize)]
pub struct Thing {
    /// Kind.
    pub kind: &'static str,
    /// Path, name or id.
    pub identity: String,
    /// True when it exists.
    pub made: bool,
}

impl<'s> Told<'s> {
    /// Looks a session up in the record and at its backend.
    pub fn of(service: &Service, session: &'s Session) -> Result<Self, ControlError> {
        let Observed { state, handle, agent, .. } = service.observe(session)?;
        let things = service.things(session)?.into_iter().map(|thing| Thing {
            kind: thing.kind.as_str(),
            made: thing.made == Made::Yes,
            identity: thing.identity,
        });
        Ok(Self {
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
        })
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.running, self.code) {
            (true, _) => write!(f, "running")?,
            (false, Some(code)) => write!(f, "ended with {code}")?,
            (false, None) => write!(f, "ended")?,
        }
        match self.restarts {
            0 => Ok(()),
            1 => write!(f, ", restarted once"),
            count => write!(f, ", restarted {count} times"),
        }
    }
}
