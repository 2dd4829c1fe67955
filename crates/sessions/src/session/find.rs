//! Which session is meant by a word.

use super::Session;
use crate::error::ControlError;

/// How much of a word must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// The whole name, or the beginning of an id.
    Name,
    /// The beginning of a name will do.
    Prefix,
}

/// The shortest beginning of an id: anything shorter may be meant for a name.
const SHORTEST: usize = 4;

/// The session that is meant: by its name, its id, or the beginning of one.
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
    let matches = found.iter().map(|session| told(session)).collect();
    ControlError::Ambiguous { word: word.into(), matches }
}

/// A session among several that were meant.
pub(crate) fn told(session: &Session) -> String {
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
    fn choose_takes_the_name_before_the_id_and_the_whole_before_the_beginning() {
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
