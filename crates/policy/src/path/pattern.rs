//! Parsing of path rules: `~`, relative paths, and globs with `*`, `?`, `[…]` and `**`.

use std::path::{Component, Path, PathBuf};

use thiserror::Error;

use super::name::NameMatcher;

/// Longest path that the kernel accepts, including the final NUL: `PATH_MAX`, `path_resolution(7)`.
const PATH_MAX: usize = 4096;

/// The path or glob of a rule, absolute but not yet resolved.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// One path.
    Exact(PathBuf),
    /// Paths below `base` that the segments match.
    Glob {
        /// The part without special characters.
        base: PathBuf,
        /// One matcher for each further name; `None` stands for `**`.
        segments: Vec<Option<NameMatcher>>,
    },
}

/// Text of a rule that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    /// The path is empty.
    #[error("the path is empty")]
    Empty,
    /// The path contains a NUL byte.
    #[error("the path `{}` contains a NUL byte", .0.escape_debug())]
    Nul(String),
    /// The path is longer than the kernel accepts.
    #[error("the path is too long: {0} bytes, the maximum is 4095")]
    TooLong(usize),
    /// The path starts with `~`, and there is no home directory.
    #[error("`{}` needs a home directory, and `HOME` is not set to an absolute path", .0.escape_debug())]
    NoHome(String),
    /// The glob is invalid.
    #[error("invalid pattern `{}`: {reason}", pattern.escape_debug())]
    Glob {
        /// The pattern.
        pattern: String,
        /// The reason.
        reason: String,
    },
}

impl Pattern {
    /// Parses the text of a rule. `~` and `~/x` are based on the home directory, relative paths on `cwd`.
    /// If a file with exactly this name exists, special characters in it are literal.
    pub fn parse(text: &str, cwd: &Path, home: Option<&Path>) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.contains('\0') {
            return Err(PatternError::Nul(text.to_owned()));
        }
        if text.len() >= PATH_MAX {
            return Err(PatternError::TooLong(text.len()));
        }
        let (base, rest) = anchor(text, cwd, home)?;
        let literal = clean(&base.join(rest));
        if !is_glob(rest) || std::fs::symlink_metadata(&literal).is_ok() {
            return Ok(Self::Exact(literal));
        }
        Self::glob(&base, rest, text)
    }

    fn glob(base: &Path, rest: &str, text: &str) -> Result<Self, PatternError> {
        let mut base = base.to_path_buf();
        let mut segments = Vec::new();
        for segment in rest.split('/').filter(|segment| !segment.is_empty() && *segment != ".") {
            match segment {
                ".." if segments.is_empty() => base = clean(&base.join("..")),
                ".." => return Err(bad(text, "`..` is not supported after a wildcard")),
                "**" => segments.push(None),
                _ if segments.is_empty() && !is_glob(segment) => base.push(unescape(segment)),
                _ => segments.push(Some(matcher(segment, text)?)),
            }
        }
        Ok(Self::Glob { base: clean(&base), segments })
    }
}

/// Splits the text into a literal base and the rest, in which special characters have a meaning.
fn anchor<'t>(
    text: &'t str,
    cwd: &Path,
    home: Option<&Path>,
) -> Result<(PathBuf, &'t str), PatternError> {
    let home = || home.map(Path::to_path_buf).ok_or_else(|| PatternError::NoHome(text.to_owned()));
    if text == "~" {
        return Ok((home()?, ""));
    }
    if let Some(rest) = text.strip_prefix("~/") {
        // `~//x` is `~/x`, not `/x`.
        return Ok((home()?, rest.trim_start_matches('/')));
    }
    match text.strip_prefix('/') {
        Some(rest) => Ok((PathBuf::from("/"), rest)),
        None => Ok((cwd.to_path_buf(), text)),
    }
}

/// Returns true when the text contains a wildcard.
pub(crate) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn matcher(segment: &str, text: &str) -> Result<NameMatcher, PatternError> {
    NameMatcher::parse(segment).map_err(|error| bad(text, &error.kind().to_string()))
}

fn bad(pattern: &str, reason: &str) -> PatternError {
    // The reason can repeat a part of the pattern.
    let reason = sandbox_linux::escape::cut(reason, usize::MAX, |letter, text| match letter {
        '\'' => text.push(letter),
        _ => text.extend(letter.escape_debug()),
    });
    PatternError::Glob { pattern: pattern.to_owned(), reason }
}

fn unescape(segment: &str) -> String {
    let mut escaped = false;
    let keep = |c: &char| {
        let drop = *c == '\\' && !escaped;
        escaped = drop;
        !drop
    };
    segment.chars().filter(keep).collect()
}

/// Removes `.`, `..` and doubled slashes lexically, without looking at the file system.
pub fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            Component::Normal(name) => clean.push(name),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Pattern, PatternError> {
        Pattern::parse(text, Path::new("/srv/p"), Some(Path::new("/home/u")))
    }

    #[test]
    fn parse_makes_one_absolute_path_when_nothing_is_special() {
        for (text, expected) in [
            ("src", "/srv/p/src"),
            ("./src/", "/srv/p/src"),
            ("../x", "/srv/x"),
            ("a/../../../..", "/"),
            ("/", "/"),
            ("/../etc//passwd", "/etc/passwd"),
            ("~", "/home/u"),
            ("~/a//b/.", "/home/u/a/b"),
            ("~root/x", "/srv/p/~root/x"),
            ("a{b,c}", "/srv/p/a{b,c}"),
        ] {
            let Ok(Pattern::Exact(path)) = parse(text) else {
                panic!("{text} is not a single path")
            };
            assert_eq!(path, Path::new(expected), "{text}");
        }
    }

    #[test]
    fn parse_splits_a_glob_at_the_first_wildcard() {
        for (text, expected, rest) in [
            ("*.rs", "/srv/p", &["x.rs"][..]),
            ("a/**/b", "/srv/p/a", &["**", "b"]),
            ("../*/x", "/srv", &["y", "x"]),
            ("~/[ab]", "/home/u", &["a"]),
            ("/etc/./*//x?", "/etc", &["y", "xy"]),
            ("a\\b/*", "/srv/p/ab", &["x"]),
        ] {
            let Ok(Pattern::Glob { base, segments }) = parse(text) else { panic!("{text}") };
            assert_eq!(base, Path::new(expected), "{text}");
            let fits = |(segment, name): (&Option<NameMatcher>, &&str)| match segment {
                Some(matcher) => matcher.is_match(name),
                None => *name == "**",
            };
            assert!(segments.len() == rest.len() && segments.iter().zip(rest).all(fits), "{text}");
        }
    }

    #[test]
    fn glob_matches_within_one_name() {
        for (text, name, expected) in [
            ("*", ".hidden", true),
            ("*.pem", "a.pem", true),
            ("*.pem", "a.pem.txt", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[!a]x", "bx", true),
            ("[!a]x", "ax", false),
            ("[]a]x", "]x", true),
            ("[a-c]*", "b", true),
            ("{a,b}*", "{a,b}c", true),
            ("{a,b}*", "a", false),
            ("[{]*", "{x", true),
            ("[{]*", "[x", false),
            ("[}{]?", "}x", true),
            ("\\{*", "{x", true),
            ("\\*?", "*x", true),
            ("\\*?", "xx", false),
        ] {
            let Ok(Pattern::Glob { segments, .. }) = parse(text) else { panic!("{text}") };
            let matched = segments[0].as_ref().is_some_and(|matcher| matcher.is_match(name));
            assert_eq!(matched, expected, "{text} and {name}");
        }
    }

    #[test]
    fn parse_treats_wildcards_literally_when_that_file_exists() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a[1].txt"), "").unwrap();
        let parse = |text| Pattern::parse(text, dir.path(), None);
        assert!(matches!(parse("a[1].txt"), Ok(Pattern::Exact(_))));
        assert!(matches!(parse("b[1].txt"), Ok(Pattern::Glob { .. })));
    }

    #[test]
    fn parse_rejects_invalid_text() {
        let long = "x".repeat(PATH_MAX);
        for (text, message) in [
            ("", "the path is empty"),
            ("a\0b", "the path `a\\0b` contains a NUL byte"),
            (long.as_str(), "the path is too long: 4096 bytes, the maximum is 4095"),
            ("*/..", "invalid pattern `*/..`: `..` is not supported after a wildcard"),
            ("a[", "invalid pattern `a[`: unclosed character class; missing ']'"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert_eq!(error.replace("\\'", "'"), message);
        }
        let homeless = Pattern::parse("~/x", Path::new("/"), None);
        assert_eq!(homeless.unwrap_err(), PatternError::NoHome("~/x".into()));
    }
}
