//! Lookup of a session by name or id.

use super::Session;
use crate::error::ControlError;

/// Accepted abbreviation of a session name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// The full name, or a prefix of an id.
    Name,
    /// A prefix of a name or an id.
    Prefix,
}

/// Shortest prefix of an id. Shorter words are more likely names.
const SHORTEST: usize = 4;

/// Finds the session that a word names: by name, then by id, then by prefix.
pub fn choose(
    sessions: &[Session],
    word: &str,
    matching: Matching,
) -> Result<Session, ControlError> {
    let by_name = |session: &Session| session.name.as_str() == word;
    let by_id = |session: &Session| word.len() >= SHORTEST && session.id.as_str().starts_with(word);
    let begins = |session: &Session| {
        matching == Matching::Prefix
            && !word.is_empty()
            && (session.name.as_str().starts_with(word) || session.id.as_str().starts_with(word))
    };
    let steps: [&dyn Fn(&Session) -> bool; 3] = [&by_name, &by_id, &begins];
    for step in steps {
        let found: Vec<&Session> = sessions.iter().filter(|session| step(session)).collect();
        match found[..] {
            [] => {}
            [only] => return Ok(only.clone()),
            _ => return Err(ambiguous(word, &found)),
        }
    }
    Err(ControlError::Unknown(word.to_owned()))
}

fn ambiguous(word: &str, found: &[&Session]) -> ControlError {
    let matches = found.iter().map(|session| label(session)).collect();
    ControlError::Ambiguous { word: word.into(), matches }
}

/// Formats a session for a list of matches.
pub(crate) fn label(session: &Session) -> String {
    format!("`{}` ({})", session.name, session.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{BackendKind, Name, SessionId, Wanted};

    fn session(id: &str, name: &str) -> Session {
        Session {
            id: SessionId::parse(id).unwrap(),
            name: Name::parse(name).unwrap(),
            named: true,
            project: "/p".into(),
            backend: BackendKind::Bwrap,
            request: String::new(),
            policy: String::new(),
            cow: false,
            wanted: Wanted::Up,
            created: 0,
            boot: String::new(),
        }
    }

    #[test]
    fn choose_prefers_names_to_ids_and_full_matches_to_prefixes() {
        let all = [
            session("aaaa00000001", "web"),
            session("aaaa00000002", "web-2"),
            session("bbbb00000003", "aaaa"),
            session("cccc00000004", "docs"),
        ];
        for (word, matching, expected) in [
            ("web", Matching::Prefix, Ok("aaaa00000001")),
            ("aaaa", Matching::Prefix, Ok("bbbb00000003")),
            ("aaaa00000001", Matching::Name, Ok("aaaa00000001")),
            ("cccc", Matching::Name, Ok("cccc00000004")),
            ("ccc", Matching::Name, Err("not_found")),
            ("ccc", Matching::Prefix, Ok("cccc00000004")),
            ("do", Matching::Prefix, Ok("cccc00000004")),
            ("do", Matching::Name, Err("not_found")),
            ("we", Matching::Prefix, Err("ambiguous")),
            ("aaaa0", Matching::Name, Err("ambiguous")),
            ("", Matching::Prefix, Err("not_found")),
        ] {
            let found = choose(&all, word, matching);
            let found = found.as_ref().map(|found| found.id.as_str()).map_err(ControlError::code);
            assert_eq!(found, expected, "{word} {matching:?}");
        }
    }
}
