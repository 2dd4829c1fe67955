//! `diff`: what a session changed.

use std::fmt::Write as _;
use std::path::Path;

use sandbox_core::Host;
use sandbox_cowfs::diff::{Count, Side, write_patch};

use super::pager::Pager;
use super::select::{Selected, session_word};
use super::stat::{self, Counted, Line};
use super::{Opened, directory, json, safe};
use crate::args::{Diff, Flags};
use crate::cmd;
use crate::run::{Failed, Outcome};
use crate::ui::{Stdio, Tone};

/// Shows the changes of a session.
pub(crate) fn run(flags: &Flags, asked: &Diff, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let (name, words) = session_word(&asked.words, flags, host)?;
    let opened = Opened::find(name, flags, host)?;
    let roots = opened.roots()?;
    let selected = Selected::of(words, &roots, opened.name(), flags, host)?;
    opened.tell_interrupted(io)?;
    if roots.iter().any(|root| root.changes.truncated) {
        let text = "more files go than are listed: a directory with very many was removed";
        io.labelled(Tone::Warning, "note", text);
    }
    let here = directory(flags, host);
    let plain = !io.terminal && !asked.stat && !flags.json;
    let counted = if asked.name_only || plain { Counted::No } else { Counted::Yes };
    let lines = stat::lines(&roots, &selected, counted)?;
    if asked.name_only {
        names(&lines, &here, io);
    } else if flags.json {
        let changes: Vec<_> = lines.iter().map(json::change).collect();
        let truncated = roots.iter().any(|root| root.changes.truncated);
        let all = serde_json::json!({
            "session": opened.name(), "changes": changes, "truncated": truncated,
        });
        cmd::json(&all, io);
    } else if asked.stat {
        let text = stat::table(&lines, &here, io);
        io.data(&text);
    } else if io.terminal {
        show(&lines, asked.patch, &here, host, io)?;
    } else {
        patch(&lines, io)?;
    }
    Ok(0)
}

/// One path on each line.
fn names(lines: &[Line<'_>], here: &Path, io: &mut Stdio<'_>) {
    for line in lines {
        let name = line.root.shown(line.change, here);
        io.data(&format!("{name}{}\n", stat::slash(line.change)));
    }
}

/// The patch as it is, for `git apply`. One patch is for one directory: where a session has several,
/// the first that changed is taken, and the others are named.
fn patch(lines: &[Line<'_>], io: &mut Stdio<'_>) -> Result<(), Failed> {
    let Some(first) = lines.first().map(|line| line.root.number) else { return Ok(()) };
    let mut others: Vec<_> = lines
        .iter()
        .filter(|line| line.root.number != first)
        .map(|line| cmd::report::name(line.root.host.path()))
        .collect();
    others.dedup();
    for other in others {
        let text = format!("the changes in {other} are a patch of their own; name it to see them");
        io.labelled(Tone::Warning, "note", &text);
    }
    for line in lines.iter().filter(|line| line.root.number == first) {
        if line.change.after == Some(Side::Special) {
            let name = cmd::report::name(line.change.path.as_path());
            io.labelled(Tone::Warning, "note", &format!("{name} is no file, and in no patch"));
        }
        let mut bytes = Vec::new();
        write_patch(&line.root.view(), line.change, &mut bytes)?;
        if !io.bytes(&bytes) {
            break;
        }
    }
    Ok(())
}

/// For somebody's eyes: what runs code later, then how much, then the patch.
fn show(
    lines: &[Line<'_>],
    only_patch: bool,
    here: &Path,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Result<(), Failed> {
    let mut pager = Pager::start(host, io);
    let head = if only_patch { String::new() } else { summary(lines, here, io) };
    if pager.show(&head, io) {
        for line in lines {
            let text = one(line, here, io)?;
            if !pager.show(&text, io) {
                break;
            }
        }
    }
    pager.finish();
    Ok(())
}

/// What somebody should know first.
pub(super) fn summary(lines: &[Line<'_>], here: &Path, io: &Stdio<'_>) -> String {
    let mut text = String::new();
    let later: Vec<_> = lines.iter().filter(|line| line.later.is_some()).collect();
    if !later.is_empty() {
        text += &io.tone(Tone::Warning, "Runs code later, once applied:");
        text += "\n";
        for line in &later {
            let why = line.later.as_deref().unwrap_or_default();
            let name = line.root.shown(line.change, here);
            let _ = writeln!(text, "  {name}  {}", io.tone(Tone::Quiet, why));
        }
        text += "\n";
    }
    for line in lines.iter().filter(|line| line.change.meanwhile) {
        let name = line.root.shown(line.change, here);
        let _ =
            writeln!(text, "{}: {name}", io.tone(Tone::Warning, "changed on the host meanwhile"));
    }
    text + &stat::table(lines, here, io) + "\n"
}

/// One change, safe for a terminal.
fn one(line: &Line<'_>, here: &Path, io: &Stdio<'_>) -> Result<String, Failed> {
    let name = line.root.shown(line.change, here);
    if let Count::Bytes { before, after } = line.count {
        let what =
            format!("{} {name}: no text, {before} -> {after} bytes", stat::letter(line.change));
        return Ok(format!("{}\n", io.tone(Tone::Strong, &what)));
    }
    let mut bytes = Vec::new();
    write_patch(&line.root.view(), line.change, &mut bytes)?;
    if bytes.is_empty() {
        let what = format!("{} {name}{}", stat::letter(line.change), stat::slash(line.change));
        return Ok(format!("{}\n", io.tone(Tone::Strong, &what)));
    }
    Ok(safe::patch(&bytes, io))
}
