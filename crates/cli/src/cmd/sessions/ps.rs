//! `ps`: lists sessions.

use sandbox_linux::clock;
use sandbox_policy::Host;
use sandbox_policy::text::bytes;
use sandbox_sessions::listing::{self, Line};

use super::service;
use crate::args::Flags;
use crate::cmd::{columns, json};
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone};
use sandbox_linux::escape::name;

/// Lists all sessions, the latest last.
pub(crate) fn run(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let sessions = sandbox_launch::layers::sessions(host)?;
    let seen =
        service::open_used(host)?.map_or_else(|| Ok(Vec::new()), |service| service.list())?;
    let lines = listing::list(&sessions, seen)?;
    if flags.json {
        json(&lines, io);
        return Ok(0);
    }
    for (dir, error) in sessions.broken()? {
        io.note(&format!("cannot read {}: {error}", name(&dir)));
    }
    if lines.is_empty() {
        io.say("no sessions; `agent-sandbox up` or `agent-sandbox --cow COMMAND` creates one");
        return Ok(0);
    }
    let head = ["NAME", "STATE", "BACKEND", "CHANGES", "LAST USED", "PROJECT"].map(str::to_owned);
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
        _ if line.engine.is_none() => "in the project".into(),
        Some(1) => format!("1 file, {}", bytes(line.bytes)),
        Some(files) => format!("{files} files, {}", bytes(line.bytes)),
        None => bytes(line.bytes),
    };
    let used = clock::duration(clock::now().saturating_sub(line.used));
    let by = [line.backend.map(str::to_owned), line.engine.clone()];
    let by = by.into_iter().flatten().collect::<Vec<_>>().join("+");
    let (name, state) = (line.name.clone(), line.state.to_owned());
    [name, state, by, changes, used, line.base.join(" ")]
}
