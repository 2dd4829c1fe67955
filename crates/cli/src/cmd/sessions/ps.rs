//! `ps`: the sessions there are.

use sandbox_core::Host;
use sandbox_cowfs::session::{Session, State};
use serde::Serialize;

use super::{ago, bytes, now};
use crate::args::Flags;
use crate::cmd::report::name;
use crate::cmd::{columns, cow, json, summary};
use crate::run::Outcome;
use crate::ui::{Stdio, Tone};

/// One session, as `--json` tells it.
#[derive(Serialize)]
struct Line {
    id: String,
    name: String,
    state: &'static str,
    pid: Option<i32>,
    engine: String,
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
    let lines: Vec<Line> = sessions.list()?.iter().map(line).collect();
    if flags.json {
        json(&lines, io);
        return Ok(0);
    }
    for (dir, error) in sessions.broken()? {
        io.labelled(Tone::Warning, "note", &format!("{} cannot be read: {error}", name(&dir)));
    }
    if lines.is_empty() {
        io.say("there are no sessions; `agent-sandbox --cow COMMAND` makes one");
        return Ok(0);
    }
    let head = ["NAME", "STATE", "ENGINE", "CHANGES", "USED", "BASE"].map(str::to_owned);
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
        Some(1) => format!("1 file, {}", bytes(line.bytes)),
        Some(files) => format!("{files} files, {}", bytes(line.bytes)),
        None => bytes(line.bytes),
    };
    let used = ago(now().saturating_sub(line.used));
    let (name, state, engine) = (line.name.clone(), line.state.to_owned(), line.engine.clone());
    [name, state, engine, changes, used, line.base.join(" ")]
}

/// The words for a state.
pub(crate) fn state(session: &Session) -> (&'static str, Option<i32>) {
    match session.state() {
        State::Running(pid) => ("running", Some(pid).filter(|pid| *pid > 0)),
        State::Stopped => ("stopped", None),
        State::Killed => ("killed", None),
    }
}

fn line(session: &Session) -> Line {
    let record = session.record();
    let (state, pid) = state(session);
    let summary = summary::of(session).ok();
    Line {
        id: record.id.clone(),
        name: record.name.clone(),
        state,
        pid,
        engine: record.engine.to_string(),
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
