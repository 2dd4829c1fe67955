//! Review of a session's changes on a terminal: flags, questions, text, exit codes. `sandbox_layers::review` decides.

pub(crate) mod diff;
pub(crate) mod apply;
pub(crate) mod undo;
pub(crate) mod discard;
pub(crate) mod safe;
mod pager;
mod stat;
mod hunks;
mod progress;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use sandbox_git::scratch::ScratchGit;
use sandbox_launch::layers::sessions;
use sandbox_layers::review::{OpenRoot, Review, ReviewError, Selected, Shown};
use sandbox_layers::session::Selector;
use sandbox_policy::Host;
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::here;
use crate::args::Flags;
use crate::failed::Failed;
use crate::ui::{Stdio, Tone};

/// Error for a command that was run inside the sandbox.
#[derive(Debug, Error)]
#[error("`{0}` only works outside the sandbox")]
struct Inside(&'static str);

impl Hint for Inside {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}

/// Opens the named session for review, else the latest one of this directory.
pub(crate) fn open(
    command: &'static str,
    name: Option<&str>,
    flags: &Flags,
    host: &Host,
) -> Result<Review, Failed> {
    if host.inside {
        return Err(Inside(command).into());
    }
    let directory = here(flags, host);
    let selector = match name.or(flags.session.as_deref()) {
        Some(name) => Selector::named(&directory, name),
        None => Selector::latest(&directory),
    };
    let session = sessions(host)?.find(&selector)?;
    Ok(Review::open(session)?)
}

/// Returns an isolated git of the host, for a review.
fn git(review: &Review, host: &Host) -> ScratchGit {
    review.git(host.var("PATH").unwrap_or_default())
}

/// Selects the changes at the paths of the command line.
fn select(
    words: &[OsString],
    roots: &[OpenRoot],
    review: &Review,
    flags: &Flags,
    host: &Host,
) -> Result<Selected, ReviewError> {
    Selected::of(words, roots, review.name(), &here(flags, host))
}

/// Reports an interrupted apply or undo, with the remedy.
fn tell_interrupted(review: &Review, io: &mut Stdio<'_>) -> Result<(), ReviewError> {
    if let Some(journal) = review.interrupted()? {
        let (what, remedy) = review.remedy(&journal);
        io.note(&format!("{what} was interrupted; {remedy}"));
    }
    Ok(())
}

/// Describes a repository, with its name in bold.
fn repository(shown: &Shown<'_>, here: &Path, most: Option<usize>, io: &Stdio<'_>) -> String {
    let mut lines = shown.lines(here, most);
    if let Some(first) = lines.first_mut() {
        *first = io.tone(Tone::Strong, first);
    }
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// Splits off the first word if it is the name of a session.
fn session_word<'w>(
    words: &'w [OsString],
    flags: &Flags,
    host: &Host,
) -> Result<(Option<&'w str>, &'w [OsString]), Failed> {
    let Some(word) =
        words.first().and_then(|word| word.to_str()).filter(|_| flags.session.is_none())
    else {
        return Ok((None, words));
    };
    let found = sessions(host)?.find(&Selector::named(here(flags, host), word));
    let exact = found.is_ok_and(|found| {
        let record = found.record();
        OsStr::new(&record.name) == word || record.id == word
    });
    Ok(if exact { (Some(word), &words[1..]) } else { (None, words) })
}
