//! `diff`: shows what a session changed.

use std::fmt::Write as _;
use std::path::Path;

use sandbox_layers::diff::{Count, write_patch};
use sandbox_layers::review::{self, Counted, DiffReport, Line, Patch, Shown, shown as shown_name};
use sandbox_policy::Host;

use super::pager::Pager;
use super::{git, repository, safe, select, session_word, stat, tell_interrupted};
use crate::args::Flags;
use crate::args::changes::Diff;
use crate::cmd;
use crate::cmd::here;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, and_more};

/// Number of commits of a ref that are listed on a terminal.
const NAMED: usize = 20;

/// Shows the changes of a session.
pub(crate) fn run(flags: &Flags, asked: &Diff, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let (name, words) = session_word(&asked.words, flags, host)?;
    let opened = super::open("diff", name, flags, host)?;
    let mut roots = opened.roots()?;
    review::inspect(&git(&opened, host), &mut roots)?;
    let selected = select(words, &roots, &opened, flags, host)?;
    tell_interrupted(&opened, io)?;
    if roots.iter().any(|root| root.changes.truncated) {
        io.note("the list is incomplete: a directory with very many files was removed");
    }
    let here = here(flags, host);
    let plain = !io.terminal && !asked.stat && !flags.json;
    let counted = if asked.name_only || plain { Counted::No } else { Counted::Yes };
    let lines = review::lines(&roots, &selected, counted)?;
    let shown: Vec<_> = roots.iter().flat_map(|root| Shown::of(root, &selected)).collect();
    if flags.json {
        let report = DiffReport::new(opened.name(), &lines, &roots, &selected);
        cmd::sorted_json(&report, io);
    } else if asked.name_only {
        names(&lines, &shown, &here, io);
    } else if asked.stat {
        let text = stat::table(&lines, &shown, &here, |rows| io.most(rows), io);
        io.data(&text);
    } else if io.terminal {
        show(&lines, &shown, asked.patch, &here, host, io)?;
    } else {
        patch(&lines, &shown, &here, io)?;
    }
    Ok(0)
}

/// Prints one path per line.
fn names(lines: &[Line<'_>], shown: &[Shown<'_>], here: &Path, io: &mut Stdio<'_>) {
    let files = lines
        .iter()
        .map(|line| shown_name(line.root, line.change, here) + stat::slash(line.change));
    let refs = shown.iter().flat_map(|shown| shown.rows(here)).map(|[_, name, _]| name);
    let names: Vec<String> = files.chain(refs).collect();
    let most = io.most(names.len());
    for name in &names[..most] {
        io.data(&format!("{name}\n"));
    }
    if most < names.len() {
        io.data(&format!("{}\n", and_more(names.len() - most)));
    }
}

/// Prints the patch for `git apply`. A patch covers one directory. If a session has several, the patch covers the first
/// one with changes, and notes name the others.
fn patch(
    lines: &[Line<'_>],
    shown: &[Shown<'_>],
    here: &Path,
    io: &mut Stdio<'_>,
) -> Result<(), Failed> {
    for line in shown.iter().flat_map(|shown| shown.lines(here, None)) {
        // `git apply` skips text before the first file header, and no line here looks like one.
        io.data(&format!("# {line}\n"));
    }
    let patch = Patch::of(lines);
    for left in &patch.left_out {
        io.note(&format!("the patch leaves out {left}"));
    }
    for bytes in patch.files() {
        if !io.bytes(&bytes?) {
            break;
        }
    }
    Ok(())
}

/// Shows the summary and the patch on a terminal.
fn show(
    lines: &[Line<'_>],
    shown: &[Shown<'_>],
    only_patch: bool,
    here: &Path,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Result<(), Failed> {
    let mut pager = Pager::start(host, io);
    let head = if only_patch { String::new() } else { summary(lines, shown, here, io) };
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

/// Formats the files that can run code, the files that changed on the host, and the sizes.
pub(super) fn summary(
    lines: &[Line<'_>],
    shown: &[Shown<'_>],
    here: &Path,
    io: &Stdio<'_>,
) -> String {
    let mut text = String::new();
    let later: Vec<_> = lines.iter().filter(|line| line.later.is_some()).collect();
    let in_git: Vec<_> = shown.iter().flat_map(|shown| shown.held(here)).collect();
    if !later.is_empty() || !in_git.is_empty() {
        text += &io.tone(Tone::Warning, "Can run code once applied:");
        text += "\n";
        for line in &later {
            let why = line.later.as_deref().unwrap_or_default();
            let name = shown_name(line.root, line.change, here);
            let _ = writeln!(text, "  {name}  {}", io.tone(Tone::Quiet, why));
        }
        for (name, why) in &in_git {
            let _ = writeln!(text, "  {name}  {}", io.tone(Tone::Quiet, why));
        }
        text += "\n";
    }
    for line in lines.iter().filter(|line| line.change.meanwhile) {
        let name = shown_name(line.root, line.change, here);
        let _ =
            writeln!(text, "{}: {name}", io.tone(Tone::Warning, "changed on the host meanwhile"));
    }
    text += &stat::table(lines, shown, here, |rows| rows, io);
    text += "\n";
    for shown in shown {
        text += &repository(shown, here, Some(NAMED), io);
        text += "\n";
    }
    text
}

/// Formats one change. Control characters are escaped.
fn one(line: &Line<'_>, here: &Path, io: &Stdio<'_>) -> Result<String, Failed> {
    let name = shown_name(line.root, line.change, here);
    if let Count::Bytes { before, after } = line.count {
        let what = format!("{} {name}: binary, {before} -> {after} bytes", line.letter());
        return Ok(format!("{}\n", io.tone(Tone::Strong, &what)));
    }
    let mut bytes = Vec::new();
    write_patch(&line.root.view(), line.change, &mut bytes)?;
    if bytes.is_empty() {
        let what = format!("{} {name}{}", line.letter(), stat::slash(line.change));
        return Ok(format!("{}\n", io.tone(Tone::Strong, &what)));
    }
    Ok(safe::patch(&bytes, io))
}
