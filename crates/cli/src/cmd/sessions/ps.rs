//! `ps`: the sessions there are.

use sandbox_core::Host;
use sandbox_layers::review::Summary;
use sandbox_layers::session::{Session, State};
use sandbox_linux::clock;
use sandbox_sessions::backend::Agent;
use sandbox_sessions::service::Seen;
use serde::Serialize;

use super::{ago, bytes, service};
use crate::args::Flags;
use crate::cmd::{columns, cow, json};
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone};
use sandbox_linux::escape::name;

/// One session, as `--json` tells it.
#[derive(Serialize)]
struct Line {
    id: String,
    name: String,
    state: &'static str,
    pid: Option<i32>,
    /// Who keeps it up; nothing for a session that only keeps changes.
    backend: Option<&'static str>,
    agent: Option<Agent>,
    /// Who keeps its changes; nothing where they go straight into the project.
    engine: Option<String>,
    project: String,
    base: Vec<String>,
    files: Option<usize>,
    bytes: u64,
    created: u64,
    used: u64,
    snapshots: usize,
    parent: Option<String>,
}

/// Lists all sessions, the latest last.
pub(crate) fn run(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let sessions = cow::sessions(host)?;
    let mut lines: Vec<Line> = sessions.list()?.iter().map(line).collect();
    let seen =
        service::open_used(host)?.map_or_else(|| Ok(Vec::new()), |service| service.list())?;
    for seen in seen {
        join(&mut lines, seen);
    }
    if flags.json {
        json(&lines, io);
        return Ok(0);
    }
    for (dir, error) in sessions.broken()? {
        io.labelled(Tone::Warning, "note", &format!("{} cannot be read: {error}", name(&dir)));
    }
    if lines.is_empty() {
        io.say("there are no sessions; `agent-sandbox up` makes one, `agent-sandbox --cow COMMAND` another");
        return Ok(0);
    }
    let head = ["NAME", "STATE", "BY", "CHANGES", "USED", "BASE"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(lines.iter().map(row)).collect();
    let text = columns(&rows, |column, cell, row| match (column, row[1].as_str()) {
        _ if row[0] == "NAME" => io.tone(Tone::Quiet, cell),
        (1, "running") => io.tone(Tone::Good, cell),
        (1, "killed") => io.tone(Tone::Warning, cell),
        (0, _) => io.tone(Tone::Strong, cell),
        _ => cell.to_owned(),
    });
    io.data(&text);
    Ok(0)
}

fn row(line: &Line) -> [String; 6] {
    let changes = match line.files {
        _ if line.engine.is_none() => "not kept apart".into(),
        Some(1) => format!("1 file, {}", bytes(line.bytes)),
        Some(files) => format!("{files} files, {}", bytes(line.bytes)),
        None => bytes(line.bytes),
    };
    let used = ago(clock::now().saturating_sub(line.used));
    let by = [line.backend.map(str::to_owned), line.engine.clone()];
    let by = by.into_iter().flatten().collect::<Vec<_>>().join("+");
    let (name, state) = (line.name.clone(), line.state.to_owned());
    [name, state, by, changes, used, line.base.join(" ")]
}

/// The words for a state.
pub(crate) fn state(session: &Session) -> (&'static str, Option<i32>) {
    match session.state() {
        State::Running(pid) => ("running", Some(pid).filter(|pid| *pid > 0)),
        // Up by its record: what its container does, the engine knows.
        State::Held(_) => ("up", None),
        State::Stopped => ("stopped", None),
        State::Killed => ("killed", None),
    }
}

fn line(session: &Session) -> Line {
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

/// A session that is up and keeps its changes apart is one thing, under one name.
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
