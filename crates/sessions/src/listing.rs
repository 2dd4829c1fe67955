//! Rows of `ps` and details of `inspect`.

use std::fmt;

use sandbox_layers::review::Summary;
use sandbox_layers::session::{LayerSession, LayerSessions, RunState};
use sandbox_linux::escape::name;
use serde::Serialize;

use crate::backend::{AgentStatus, Authorized, Observed};
use crate::error::ControlError;
use crate::service::{Seen, Service};
use crate::session::Session;
use crate::store::Made;

/// Session that is kept up by a backend, or that only has a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// State in one word.
    pub state: &'static str,
    /// Process id.
    pub pid: Option<i32>,
    /// Backend; none for a session that only has a layer.
    pub backend: Option<&'static str>,
    /// State of the agent.
    pub agent: Option<AgentStatus>,
    /// Engine of its layer; none where it writes to the project directly.
    pub engine: Option<String>,
    /// The project.
    pub project: String,
    /// Directories below the layer.
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
    /// Session that it was forked from.
    pub parent: Option<String>,
}

/// Lists sessions with a layer and sessions that are kept up, the latest last.
pub fn list(layers: &LayerSessions, seen: Vec<Seen>) -> Result<Vec<Line>, ControlError> {
    let mut lines: Vec<Line> = layers.list()?.iter().map(line).collect();
    for seen in seen {
        join(&mut lines, seen);
    }
    Ok(lines)
}

/// Returns the state of a session that only has a layer.
fn state(session: &LayerSession) -> (&'static str, Option<i32>) {
    match session.state() {
        RunState::Running(pid) => ("running", Some(pid).filter(|pid| *pid > 0)),
        // The record says that it is up. Only the backend knows what its container does.
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

/// Adds a session that is kept up. If it has a layer, both become one row.
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

/// Details of a session that is kept up.
#[derive(Debug, Serialize)]
pub struct Details<'s> {
    /// Id.
    pub id: &'s str,
    /// Name.
    pub name: &'s str,
    /// State in one word.
    pub state: &'static str,
    /// Backend.
    pub backend: &'static str,
    /// Project.
    pub project: String,
    /// Process or container.
    pub handle: Option<String>,
    /// State of the agent.
    pub agent: Option<AgentStatus>,
    /// True when its changes go to a layer.
    pub cow: bool,
    /// Hash of the policy.
    pub policy: &'s str,
    /// Seconds since the epoch.
    pub created: u64,
    /// Path of the log.
    pub log: String,
    /// Resources that were created for it.
    pub things: Vec<Thing>,
    /// SSH key that is authorized on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Authorized>,
}

/// Resource that was created for a session.
#[derive(Debug, Serialize)]
pub struct Thing {
    /// Kind.
    pub kind: &'static str,
    /// Path, name or id.
    pub identity: String,
    /// True when it exists.
    pub made: bool,
}

impl<'s> Details<'s> {
    /// Reads a session's record and asks its backend.
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

impl fmt::Display for AgentStatus {
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
