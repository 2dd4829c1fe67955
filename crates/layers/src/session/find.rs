//! Selection of a session by directory and name.

use std::path::{Path, PathBuf};

use super::error::{SessionError, Unusable};
use super::opened::LayerSession;

/// Directory and name by which a session is selected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// The working directory. Sessions of this directory, or of one above it, come first.
    pub directory: PathBuf,
    /// Name, ID, or the beginning of one. `None` selects the latest session of the directory.
    pub name: Option<String>,
}

impl Selector {
    /// Selects the latest session of a directory.
    pub fn latest(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), name: None }
    }

    /// Selects a session by its name, its ID, or the beginning of one.
    pub fn named(directory: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        Self { directory: directory.into(), name: Some(name.into()) }
    }
}

/// Returns true for a valid name, which is safe in a shell, a path and a terminal.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    name.len() <= 64
        && name.bytes().all(plain)
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// Returns `project-1`, or the same with the first free number.
pub(super) fn default_name(project: &Path, taken: &[LayerSession]) -> String {
    let base = project.file_name().unwrap_or_default().to_string_lossy();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let base: String = base.chars().map(plain).take(48).collect();
    let base = Some(base.trim_matches('-')).filter(|base| !base.is_empty()).unwrap_or("session");
    let mut number = 1u64;
    while taken.iter().any(|session| session.record().name == format!("{base}-{number}")) {
        number += 1;
    }
    format!("{base}-{number}")
}

/// Returns the selected session.
pub(super) fn choose(
    sessions: Vec<LayerSession>,
    unusable: Vec<Unusable>,
    selector: &Selector,
) -> Result<LayerSession, SessionError> {
    let Some(name) = &selector.name else {
        return latest(sessions, unusable, &selector.directory);
    };
    let here = |session: &LayerSession| selector.directory.starts_with(&session.record().project);
    let exact =
        |session: &LayerSession| session.record().name == *name || session.record().id == *name;
    let begins = |session: &LayerSession| {
        session.record().name.starts_with(name.as_str()) || session.record().id.starts_with(name)
    };
    let steps: [&dyn Fn(&LayerSession) -> bool; 4] = [
        &|session| here(session) && exact(session),
        &exact,
        &|session| here(session) && begins(session),
        &begins,
    ];
    let is_it = |one: &Unusable| {
        one.head.as_ref().is_some_and(|head| head.name == *name)
            || one.dir.file_name().is_some_and(|id| *id == **name)
    };
    let mut blocking = unusable.into_iter().find(is_it);
    for (number, step) in steps.into_iter().enumerate() {
        let found: Vec<&LayerSession> = sessions.iter().filter(|session| step(session)).collect();
        // An unreadable session of exactly this name is an error, before any session whose name only begins with it.
        if let Some(one) = blocking.take_if(|_| number > 0) {
            return Err(one.error);
        }
        match found[..] {
            [] => {}
            [only] => return Ok(only.clone()),
            _ => return Err(ambiguous(name, &found)),
        }
    }
    Err(SessionError::Unknown(name.clone()))
}

/// Returns the latest session of the nearest project. An unreadable record may be the latest one, so the session must
/// then be named.
fn latest(
    sessions: Vec<LayerSession>,
    unusable: Vec<Unusable>,
    directory: &Path,
) -> Result<LayerSession, SessionError> {
    let here = sessions
        .into_iter()
        .filter(|session| directory.starts_with(&session.record().project))
        .max_by_key(|session| {
            let record = session.record();
            (record.project.components().count(), record.last_used(), record.id.clone())
        });
    let nearest = here.as_ref().map_or(0, |session| session.record().project.components().count());
    let may_be_later = |one: &Unusable| {
        one.head.as_ref().is_some_and(|head| {
            directory.starts_with(&head.project) && head.project.components().count() >= nearest
        })
    };
    match unusable.into_iter().find(may_be_later) {
        Some(one) => Err(one.error),
        None => here.ok_or_else(|| SessionError::None(directory.to_path_buf())),
    }
}

fn ambiguous(name: &str, found: &[&LayerSession]) -> SessionError {
    let tell =
        |session: &&LayerSession| format!("`{}` ({})", session.record().name, session.record().id);
    SessionError::Ambiguous { name: name.into(), matches: found.iter().map(tell).collect() }
}
