//! `apply --interactive`: shows each change and asks about it, text files hunk by hunk.

use std::path::Path;

use sandbox_layers::apply::Wish;
use sandbox_layers::diff::{Change, Content, LineDiff, MAX_TEXT, Side, write_patch};
use sandbox_layers::review::{
    Bit, HunkChoice, OpenRoot, Selected, Shown, Status, Taken, comes_along, shown,
};

use super::{repository, safe};
use crate::failed::Failed;
use crate::ui::{Stdio, Tone, ask};

const HELP: &str = "\
y  apply it
n  skip it
a  apply it and the rest of this file
d  skip it and the rest of this file
s  split it into smaller hunks
q  skip it and everything after it
?  show this help";

/// Answer of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    All,
    None,
    Split,
    Quit,
}

/// Progress of the questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Go {
    On,
    Quit,
}

/// Asks about every selected change of a root. Returns the selection, and the progress.
pub(crate) fn choose(
    root: &OpenRoot,
    selected: &Selected,
    here: &Path,
    io: &mut Stdio<'_>,
) -> Result<(Wish, Go), Failed> {
    let mut wish = Wish { exact: true, ..Wish::default() };
    for change in root.files.iter().filter(|change| selected.has(root.number, &change.path)) {
        if comes_along(root, change) {
            // The plan keeps a directory that is not empty, and creates the parents of files.
            wish.paths.extend(change.after.is_none().then(|| change.path.clone()));
            continue;
        }
        let (taken, go) = one(root, change, here, io)?;
        match taken {
            Taken::Nothing => {}
            Taken::Everything => wish.paths.push(change.path.clone()),
            Taken::Part(chosen) => {
                wish.paths.push(change.path.clone());
                wish.chosen.insert(change.path.clone(), chosen);
            }
        }
        if go == Go::Quit {
            return Ok((wish, go));
        }
    }
    for shown in Shown::of(root, selected) {
        let (text, name) = (repository(&shown, here, None, io), shown.name(here));
        io.say(text.trim_end());
        match question(&format!("Apply the changes of the repository {name}"), "y,n,q,?", io) {
            Answer::Yes | Answer::All => wish.repositories.push(shown.repository.dir.clone()),
            Answer::No | Answer::None | Answer::Split => {}
            Answer::Quit => return Ok((wish, Go::Quit)),
        }
    }
    Ok((wish, Go::On))
}

/// Asks about one change.
fn one(
    root: &OpenRoot,
    change: &Change,
    here: &Path,
    io: &mut Stdio<'_>,
) -> Result<(Taken, Go), Failed> {
    let name = shown(root, change, here);
    if let Some(why) = root.change_later(change) {
        let text = io.err_tone(Tone::Warning, "can run code");
        io.say(&format!("{text}: {name}  {why}"));
    }
    let (Some(Side::File { executable: was, .. }), Some(Side::File { executable: will, .. })) =
        (&change.before, &change.after)
    else {
        return whole(root, change, &name, io);
    };
    let view = root.view();
    match (view.before(change, MAX_TEXT)?, view.after(change, MAX_TEXT)?) {
        (Some(Content::Text(old)), Some(Content::Text(new))) if old != new => {
            let bit = Bit { was: *was, will: *will };
            Ok(by_hunk(&LineDiff::new(&old, &new), bit, &name, io))
        }
        _ => whole(root, change, &name, io),
    }
}

/// Asks about a change that cannot be split.
fn whole(
    root: &OpenRoot,
    change: &Change,
    name: &str,
    io: &mut Stdio<'_>,
) -> Result<(Taken, Go), Failed> {
    let mut bytes = Vec::new();
    write_patch(&root.view(), change, &mut bytes)?;
    let binary = bytes.windows(16).any(|part| part == b"GIT binary patch");
    let text = if binary || bytes.is_empty() {
        format!("{} {name}", Status::of(change).letter())
    } else {
        safe::patch(&bytes, io).trim_end().to_owned()
    };
    io.say(&text);
    Ok(match question(&format!("Apply {name}"), "y,n,q,?", io) {
        Answer::Yes | Answer::All => (Taken::Everything, Go::On),
        Answer::No | Answer::None | Answer::Split => (Taken::Nothing, Go::On),
        Answer::Quit => (Taken::Nothing, Go::Quit),
    })
}

/// Asks about a change of the executable bit, which no hunk contains.
fn ask_bit(bit: Bit, name: &str, io: &mut Stdio<'_>) -> Answer {
    if bit.was == bit.will {
        return Answer::Yes;
    }
    let mode = |executable| if executable { "100755" } else { "100644" };
    let title = io.err_tone(Tone::Strong, name);
    io.say(&format!("{title}\nold mode {}\nnew mode {}", mode(bit.was), mode(bit.will)));
    question(&format!("Apply this mode change to {name}"), "y,n,a,d,q,?", io)
}

fn by_hunk(diff: &LineDiff<'_>, bit: Bit, name: &str, io: &mut Stdio<'_>) -> (Taken, Go) {
    let executable = match ask_bit(bit, name, io) {
        Answer::All => return (Taken::Everything, Go::On),
        Answer::None => return (Taken::Nothing, Go::On),
        Answer::Quit => return (Taken::Nothing, Go::Quit),
        Answer::Yes => bit.will,
        Answer::No | Answer::Split => bit.was,
    };
    let mut choice = HunkChoice::new(diff, bit, executable);
    let mut go = Go::On;
    while let Some(bytes) = choice.patch() {
        let title = io.err_tone(Tone::Strong, name);
        io.say(&format!("{title}\n{}", safe::patch(&bytes, io).trim_end()));
        match question(&format!("Apply this hunk to {name}"), "y,n,a,d,s,q,?", io) {
            Answer::Yes => choice.decide(true),
            Answer::No => choice.decide(false),
            Answer::All => choice.decide_rest(true),
            Answer::None => choice.decide_rest(false),
            Answer::Quit => {
                choice.decide_rest(false);
                go = Go::Quit;
            }
            Answer::Split => choice.split(),
        }
    }
    (choice.finish(), go)
}

fn question(text: &str, answers: &str, io: &mut Stdio<'_>) -> Answer {
    loop {
        // End of input ends the questions.
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
