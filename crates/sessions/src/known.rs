//! A name that no session has, with the known name that it resembles.

use sandbox_protocol::Hint;
use thiserror::Error;

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
    fn hint(&self) -> Option<String> {
        let Self { name, known } = self;
        let begin = format!("`agent-sandbox --session {name} COMMAND` begins one");
        Some(match nearest(name, known) {
            Some(near) => format!("did you mean `{near}`? {begin}"),
            None => format!("`agent-sandbox ps` lists the sessions: {}; {begin}", listed(known)),
        })
    }
}

/// Returns the known name that is the fewest slips away, if those are few for its length.
fn nearest<'k>(name: &str, known: &'k [String]) -> Option<&'k String> {
    let slips = known.iter().map(|known| (slips(name.as_bytes(), known.as_bytes()), known));
    slips.min().filter(|(count, known)| *count <= 1 + known.len() / 4).map(|(_, known)| known)
}

/// Counts letters that are wrong, missing, too many or swapped with the next one: the optimal string
/// alignment distance.
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

/// Lists the first names.
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
    fn nearest_finds_the_name_that_a_slip_away_is() {
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
