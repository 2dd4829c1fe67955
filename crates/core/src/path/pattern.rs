//! Text to [`Pattern`]: `~`, relative paths, and globs of `*`, `?`, `[…]` and `**`.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use thiserror::Error;

/// The longest path the kernel takes.
const PATH_MAX: usize = 4096;

/// A path as a rule means it, absolute but not yet resolved.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// One path.
    Exact(PathBuf),
    /// Everything below `base` that the segments match.
    Glob {
        /// The part without special characters.
        base: PathBuf,
        /// One matcher for each further name; `None` stands for `**`.
        segments: Vec<Option<GlobMatcher>>,
    },
}

/// A rule's text that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    /// Nothing was written.
    #[error("an empty path")]
    Empty,
    /// A NUL byte.
    #[error("the path `{}` holds a NUL byte", .0.escape_debug())]
    Nul(String),
    /// Longer than the kernel takes.
    #[error("a path of {0} bytes: the longest is 4095")]
    TooLong(usize),
    /// `~` without a home.
    #[error("`{0}` needs a home directory, and `HOME` is not set to an absolute path")]
    NoHome(String),
    /// A glob that does not parse.
    #[error("bad pattern `{pattern}`: {reason}")]
    Glob {
        /// The pattern.
        pattern: String,
        /// Why.
        reason: String,
    },
}

impl Pattern {
    /// Reads a rule's text. `~` and `~/x` mean the home directory, a relative path starts at `cwd`.
    /// Text with special characters that names an existing file as it stands is that file.
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
                ".." => return Err(bad(text, "`..` after a special character")),
                "**" => segments.push(None),
                _ if segments.is_empty() && !is_glob(segment) => base.push(unescape(segment)),
                _ => segments.push(Some(matcher(segment, text)?)),
            }
        }
        Ok(Self::Glob { base: clean(&base), segments })
    }
}

/// Splits the text into a literal start and the part in which special characters count.
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

/// Whether the text holds a character that a glob reads.
pub fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn matcher(segment: &str, text: &str) -> Result<GlobMatcher, PatternError> {
    // Braces are ordinary characters here; `globset` would read them as alternatives.
    let escaped = segment.replace('{', "[{]").replace('}', "[}]");
    GlobBuilder::new(&escaped)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| bad(text, &error.kind().to_string()))
}

fn bad(pattern: &str, reason: &str) -> PatternError {
    PatternError::Glob { pattern: pattern.to_owned(), reason: reason.to_owned() }
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

/// Removes `.`, `..` and doubled slashes by the text alone.
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
