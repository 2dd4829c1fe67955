//! Review of a session's changes on a terminal: flags, questions, text, exit codes. `sandbox_layers::review` decides.

pub(crate) mod diff;
pub(crate) mod apply;
pub(crate) mod undo;
pub(crate) mod discard;
pub(crate) mod safe;
mod pager;
mod stat;
pub(crate) mod ask;
mod hunks;
mod progress;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use sandbox_core::Host;
use sandbox_git::scratch::ScratchGit;
use sandbox_layers::review::{OpenRoot, Review, ReviewError, Selected, Shown};
use sandbox_layers::session::Selector;
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::cow;
use crate::args::Flags;
use crate::failed::Failed;
use crate::ui::{Stdio, Tone};

/// Failure to ask about a session's changes.
#[derive(Debug, Error)]
pub(crate) enum ChangesError {
    #[error("a session's changes are looked at from outside the sandbox")]
    Inside,
    #[error("{0}")]
    NoTerminal(String),
}

impl Hint for ChangesError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoTerminal(_) => Some("pass `--yes`".into()),
            Self::Inside => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}

/// Opens the session that the user means, for review.
pub(crate) fn open(name: Option<&str>, flags: &Flags, host: &Host) -> Result<Review, Failed> {
    if host.inside {
        return Err(ChangesError::Inside.into());
    }
    let directory = directory(flags, host);
    let selector = match name.or(flags.session.as_deref()) {
        Some(name) => Selector::named(&directory, name),
        None => Selector::latest(&directory),
    };
    let session = cow::sessions(host)?.find(&selector)?;
    Ok(Review::open(session)?)
}

/// Prepares the host's git for a review.
fn git(review: &Review, host: &Host) -> ScratchGit {
    review.git(host.var("PATH").unwrap_or_default())
}

/// Selects the changes at the paths that the user typed.
fn select(
    words: &[OsString],
    roots: &[OpenRoot],
    review: &Review,
    flags: &Flags,
    host: &Host,
) -> Result<Selected, ReviewError> {
    Selected::of(words, roots, review.name(), &directory(flags, host))
}

/// Reports an interrupted apply or undo, and what can be done about it.
fn tell_interrupted(review: &Review, io: &mut Stdio<'_>) -> Result<(), ReviewError> {
    if let Some(journal) = review.interrupted()? {
        let (what, remedy) = review.remedy(&journal);
        io.labelled(Tone::Warning, "note", &format!("{what} was interrupted; {remedy}"));
    }
    Ok(())
}

/// Returns the directory that the user is in.
pub(crate) fn directory(flags: &Flags, host: &Host) -> PathBuf {
    let cwd = host.cwd.as_deref().unwrap_or(Path::new("/"));
    let asked = flags.cwd.as_ref().map_or_else(|| cwd.to_path_buf(), |dir| cwd.join(dir));
    std::fs::canonicalize(&asked).unwrap_or(asked)
}

/// Describes a repository, with its name in bold.
fn repository(shown: &Shown<'_>, here: &Path, most: Option<usize>, io: &Stdio<'_>) -> String {
    let mut lines = shown.lines(here, most);
    if let Some(first) = lines.first_mut() {
        *first = io.tone(Tone::Strong, first);
    }
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// Takes the first word for a session where there is one of that name.
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
    let found = cow::sessions(host)?.find(&Selector::named(directory(flags, host), word));
    let exact = found.is_ok_and(|found| {
        let record = found.record();
        OsStr::new(&record.name) == word || record.id == word
    });
    Ok(if exact { (Some(word), &words[1..]) } else { (None, words) })
}
