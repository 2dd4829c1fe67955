//! Meaning of names that are not built-in commands of git.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::{ConfigScope, Globals, Refusal, RepoView};

/// Configuration of a name.
pub(super) struct AliasConfig {
    /// The alias, `!` included.
    pub(super) expansion: Option<Vec<u8>>,
    /// True when git would run its best guess for an unknown name.
    pub(super) autocorrects: bool,
}

/// Looks a name up with git, with the options and the environment of the call, so that files, includes, `-c`
/// and variables all count.
pub(super) fn lookup(repo: &impl RepoView, globals: &Globals, name: &str) -> AliasConfig {
    let values = repo.config(globals, r"^(alias\..*|help\.autocorrect)$", ConfigScope::Effective);
    let mut known = AliasConfig { expansion: None, autocorrects: false };
    for (key, value) in values {
        if key.eq_ignore_ascii_case("help.autocorrect") {
            known.autocorrects = true;
        } else if is_alias(&key, name) {
            known.expansion = Some(value);
        }
    }
    known
}

/// Returns true for `alias.NAME`, or for `alias.NAME.command` of later versions.
fn is_alias(key: &str, name: &str) -> bool {
    let key = key.get("alias.".len()..).unwrap_or_default();
    let key = key.strip_suffix(".command").unwrap_or(key);
    key.eq_ignore_ascii_case(name)
}

pub(super) fn endless(name: &str) -> Refusal {
    Refusal {
        what: format!("git {name}"),
        why: "its aliases are nested too deeply",
        instead: "run the command that the alias stands for",
    }
}

/// Splits an alias into words as git does, with quotes and backslashes.
pub(super) fn split(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (None, blank) if blank.is_ascii_whitespace() => words.extend(word.take()),
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (Some(open), close) if open == close => quote = None,
            (None | Some(b'"'), b'\\') => word.get_or_insert_default().extend(bytes.next()),
            (_, byte) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_protects_what_git_protects() {
        for (text, expected) in [
            ("reset --hard", &["reset", "--hard"][..]),
            ("  a\t b\n", &["a", "b"]),
            ("commit -m 'a b' -n", &["commit", "-m", "a b", "-n"]),
            (r#"log --format="%h \"x\"" "#, &["log", r#"--format=%h "x""#]),
            (r"a\ b ''", &["a b", ""]),
            (r"'a\b'", &[r"a\b"]),
            ("", &[]),
            ("'open", &["open"]),
            ("end\\", &["end"]),
        ] {
            assert_eq!(split(text.as_bytes()), expected, "{text}");
        }
    }
}
