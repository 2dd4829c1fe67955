//! `apply --interactive`: every change is shown and asked about, texts hunk by hunk.

use std::path::Path;

use sandbox_cowfs::apply::Wish;
use sandbox_cowfs::diff::{Change, Content, Hunk, LineDiff, MAX_TEXT, Side, write_patch};

use super::select::Selected;
use super::stat::letter;
use super::{OpenRoot, ask, safe};
use crate::run::Failed;
use crate::ui::{Stdio, Tone};

const HELP: &str = "\
y  take it
n  leave it
a  take it and everything else in this file
d  leave it and everything else in this file
s  split it into smaller ones
q  leave it and everything after it
?  this text";

/// What was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    All,
    None,
    Split,
    Quit,
}

/// What of one file was chosen.
enum Chosen {
    Nothing,
    Everything,
    /// The text that the chosen hunks make.
    Part(Vec<u8>),
}

/// Whether to ask on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Go {
    On,
    Quit,
}

/// Asks about every selected change of a root. Returns the wish, and whether to ask on.
pub(crate) fn choose(
    root: &OpenRoot,
    selected: &Selected,
    here: &Path,
    io: &mut Stdio<'_>,
) -> Result<(Wish, Go), Failed> {
    let mut wish = Wish { exact: true, ..Wish::default() };
    for change in root.changes.list.iter().filter(|change| selected.has(root.number, &change.path))
    {
        if comes_along(root, change) {
            // The plan keeps a directory while something stays in it, and makes what files need.
            wish.paths.extend(change.after.is_none().then(|| change.path.clone()));
            continue;
        }
        let (chosen, go) = one(root, change, here, io)?;
        match chosen {
            Chosen::Nothing => {}
            Chosen::Everything => wish.paths.push(change.path.clone()),
            Chosen::Part(text) => {
                wish.paths.push(change.path.clone());
                wish.chosen.insert(change.path.clone(), text);
            }
        }
        if go == Go::Quit {
            return Ok((wish, go));
        }
    }
    Ok((wish, Go::On))
}

/// Directories come and go with what is in them, unless they are empty.
fn comes_along(root: &OpenRoot, change: &Change) -> bool {
    let is_dir = |side: &Option<Side>| matches!(side, None | Some(Side::Dir));
    let at = root.changes.list.partition_point(|other| other.path <= change.path);
    let next = root.changes.list.get(at);
    let full = next.is_some_and(|next| next.path.as_path().starts_with(change.path.as_path()));
    full && is_dir(&change.before) && is_dir(&change.after)
}

/// One change.
fn one(
    root: &OpenRoot,
    change: &Change,
    here: &Path,
    io: &mut Stdio<'_>,
) -> Result<(Chosen, Go), Failed> {
    let name = root.shown(change, here);
    if let Some(why) = root.change_later(change) {
        let text = io.err_tone(Tone::Warning, "runs code later");
        io.say(&format!("{text}: {name}  {why}"));
    }
    let (Some(Side::File { .. }), Some(Side::File { .. })) = (&change.before, &change.after) else {
        return whole(root, change, &name, io);
    };
    let view = root.view();
    match (view.before(change, MAX_TEXT)?, view.after(change, MAX_TEXT)?) {
        (Some(Content::Text(old)), Some(Content::Text(new))) if old != new => {
            Ok(by_hunk(&LineDiff::new(&old, &new), &name, io))
        }
        _ => whole(root, change, &name, io),
    }
}

/// Something that is taken or left as a whole.
fn whole(
    root: &OpenRoot,
    change: &Change,
    name: &str,
    io: &mut Stdio<'_>,
) -> Result<(Chosen, Go), Failed> {
    let mut bytes = Vec::new();
    write_patch(&root.view(), change, &mut bytes)?;
    let binary = bytes.windows(16).any(|part| part == b"GIT binary patch");
    let text = if binary || bytes.is_empty() {
        format!("{} {name}", letter(change))
    } else {
        safe::patch(&bytes, io).trim_end().to_owned()
    };
    io.say(&text);
    Ok(match question(&format!("Apply {name}"), "y,n,q,?", io) {
        Answer::Yes | Answer::All => (Chosen::Everything, Go::On),
        Answer::No | Answer::None | Answer::Split => (Chosen::Nothing, Go::On),
        Answer::Quit => (Chosen::Nothing, Go::Quit),
    })
}

fn by_hunk(diff: &LineDiff<'_>, name: &str, io: &mut Stdio<'_>) -> (Chosen, Go) {
    let mut todo: Vec<Hunk> = diff.hunks().into_iter().rev().collect();
    let mut taken = Vec::new();
    let (mut left, mut go) = (0, Go::On);
    while let Some(hunk) = todo.pop() {
        let mut bytes = Vec::new();
        // Writing to memory cannot fail.
        let _ = diff.write(&hunk, &mut bytes);
        let title = io.err_tone(Tone::Strong, name);
        let text = format!("{title}\n{}", safe::patch(&bytes, io).trim_end());
        io.say(&text);
        let answer = question(&format!("Apply this hunk to {name}"), "y,n,a,d,s,q,?", io);
        match answer {
            Answer::Yes => taken.push(hunk),
            Answer::No => left += 1,
            Answer::All => {
                taken.push(hunk);
                taken.extend(todo.drain(..).rev());
            }
            Answer::None | Answer::Quit => {
                left += 1 + todo.len();
                todo.clear();
                go = if answer == Answer::Quit { Go::Quit } else { Go::On };
            }
            Answer::Split => todo.extend(diff.split(&hunk).into_iter().rev()),
        }
    }
    let chosen = match (taken.is_empty(), left) {
        (true, _) => Chosen::Nothing,
        (false, 0) => Chosen::Everything,
        _ => Chosen::Part(diff.compose(&taken)),
    };
    (chosen, go)
}

fn question(text: &str, answers: &str, io: &mut Stdio<'_>) -> Answer {
    loop {
        // The end of the input is the end of the questions.
        let Some(answer) = ask::line(&format!("{text} [{answers}]?")) else { return Answer::Quit };
        match answer.as_str() {
            "y" => return Answer::Yes,
            "n" => return Answer::No,
            "a" => return Answer::All,
            "d" => return Answer::None,
            "s" if answers.contains('s') => return Answer::Split,
            "q" => return Answer::Quit,
            _ => io.say(HELP),
        }
    }
}
