//! Error for an unknown session name, with a suggestion.

use std::collections::BTreeSet;
use std::path::Path;

use sandbox_layers::session::LayerSessions;
use sandbox_protocol::Hint;
use thiserror::Error;

use crate::error::ControlError;
use crate::service::Service;
use crate::session::{Matching, Name};

/// No session of this name exists.
#[derive(Debug, Error)]
#[error("there is no session `{}`", name.escape_debug())]
pub struct UnknownSession {
    /// The name.
    pub name: String,
    /// Names of sessions that exist.
    pub known: Vec<String>,
}

impl Hint for UnknownSession {
    fn code(&self) -> &'static str {
        "not_found"
    }

    fn hint(&self) -> Option<String> {
        let Self { name, known } = self;
        let hint = match nearest(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known sessions: {};", listed(known)),
        };
        // A session cannot have every name.
        Some(match Name::parse(name) {
            Ok(_) => format!("{hint} `agent-sandbox --session {name} COMMAND` creates one"),
            Err(_) => hint.trim_end_matches(';').to_owned(),
        })
    }
}

/// Returns an error if no session of this name has a layer in `project`. A session without such a layer has to be up.
pub fn unknown(
    name: &str,
    project: &Path,
    service: Option<&Service>,
    layers: &LayerSessions,
) -> Result<Option<UnknownSession>, ControlError> {
    if layers.of(project, name)?.is_some() {
        return Ok(None);
    }
    let mut known = Vec::new();
    if let Some(service) = service {
        if let Ok(session) = service.find(name, Matching::Name) {
            return Err(ControlError::NotUp(session.name.to_string()));
        }
        known.extend(service.sessions()?.iter().map(|session| session.name.to_string()));
    }
    let here = layers.list()?.into_iter().filter(|session| session.record().project == project);
    known.extend(here.map(|session| session.record().name.clone()));
    // A session that is up has the same name as its layer.
    let mut seen = BTreeSet::new();
    known.retain(|name| seen.insert(name.clone()));
    Ok(Some(UnknownSession { name: name.to_owned(), known }))
}

/// Returns the known name with the smallest edit distance, if that is small for its length.
fn nearest<'k>(name: &str, known: &'k [String]) -> Option<&'k String> {
    let slips = known.iter().map(|known| (slips(name.as_bytes(), known.as_bytes()), known));
    slips.min().filter(|(count, known)| *count <= 1 + known.len() / 4).map(|(_, known)| known)
}

/// Returns the optimal string alignment distance: insertions, deletions, substitutions and transpositions.
fn slips(one: &[u8], other: &[u8]) -> usize {
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let mut least =
                (rows[i][j] + usize::from(a != b)).min(row[j] + 1).min(rows[i][j + 1] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows.last().and_then(|row| row.last()).copied().unwrap_or(usize::MAX)
}

/// Formats the first names.
fn listed(known: &[String]) -> String {
    const MOST: usize = 5;
    let mut names: Vec<String> = known.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    match known.len() {
        0 => names.push("none".into()),
        count if count > MOST => names.push("…".into()),
        _ => {}
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::{nearest, slips};

    #[test]
    fn nearest_finds_a_name_within_a_small_edit_distance() {
        let known = ["fix", "web-2", "worker"].map(str::to_owned);
        for (typed, expected) in [
            ("fxi", Some("fix")),
            ("fixx", Some("fix")),
            ("web", Some("web-2")),
            ("wroekr", Some("worker")),
            ("zzzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, &known).map(String::as_str), expected, "{typed}");
        }
        assert_eq!((slips(b"s8", b"s9"), slips(b"", b"ab"), slips(b"a", b"a")), (1, 2, 0));
        assert_eq!(nearest("x", &[]), None);
    }
}
