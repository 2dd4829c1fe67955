//! Refs as git stores them in files: loose refs, `packed-refs`, logs, and the rules for names.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use sandbox_linux::tree::Kind;

use crate::files::{Files, ListFiles};

/// Maximum size of `packed-refs` and logs.
pub const MAX_REFS: u64 = 64 << 20;
/// Maximum size of a loose ref or `HEAD`, which is one line.
pub(crate) const MAX_LINE: u64 = 8192;
/// Identity of the lines that are added to logs.
const LOG_IDENTITY: &str = "agent-sandbox <agent-sandbox>";
/// Length of an object name.
pub(crate) const ID_LENGTH: usize = 40;
/// The object name that logs use for "no object".
pub const NO_OBJECT: &str = "0000000000000000000000000000000000000000";

/// Value of a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefValue {
    /// An object, in hexadecimal.
    Id(String),
    /// Another ref.
    Symbolic(String),
}

impl RefValue {
    /// Parses the content of a loose ref. Returns `None` if git would not accept it.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim_end_matches(['\n', '\r', ' ', '\t']);
        if let Some(name) = text.strip_prefix("ref:") {
            let name = name.trim_start();
            return is_name(name).then(|| Self::Symbolic(name.to_owned()));
        }
        is_id(text).then(|| Self::Id(text.to_owned()))
    }

    /// Returns the content of a loose ref.
    pub fn line(&self) -> String {
        match self {
            Self::Id(id) => format!("{id}\n"),
            Self::Symbolic(name) => format!("ref: {name}\n"),
        }
    }

    /// Returns the object, or `None` for a symbolic ref.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Id(id) => Some(id),
            Self::Symbolic(_) => None,
        }
    }

    /// Returns the value for display: the first characters of an object name, or the name of a ref.
    pub fn short(&self) -> &str {
        match self {
            Self::Id(id) => short(id),
            Self::Symbolic(name) => name,
        }
    }
}

/// Returns the first characters of an object name.
pub fn short(id: &str) -> &str {
    id.get(..10).unwrap_or(id)
}

/// Returns true for the name of an object, as git writes it.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == ID_LENGTH && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns true when git accepts a name for a ref: `git check-ref-format`.
pub(crate) fn is_name(name: &str) -> bool {
    let lock = |part: &str| part.as_bytes().ends_with(b".lock");
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !lock(part);
    let byte = |byte: u8| byte > b' ' && byte != 0x7f && !b"~^:?*[\\".contains(&byte);
    name.starts_with("refs/")
        && name.split('/').count() > 1
        && name.split('/').all(part)
        && name.bytes().all(byte)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
}

/// Parses a `packed-refs` file. Lines that git would not accept are left out.
pub fn packed(text: &[u8]) -> BTreeMap<String, RefValue> {
    let line = |line: &[u8]| {
        let (id, name) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        (is_id(id) && is_name(name)).then(|| (name.to_owned(), RefValue::Id(id.to_owned())))
    };
    text.split(|byte| *byte == b'\n').filter_map(line).collect()
}

/// Removes some refs from a `packed-refs` file.
pub fn without(text: &[u8], gone: &dyn Fn(&str) -> bool) -> Vec<u8> {
    let (mut kept, mut skip) = (Vec::new(), false);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        // The line after an annotated tag is the object that it points to.
        if !line.starts_with(b"^") {
            let plain = std::str::from_utf8(line).unwrap_or_default().trim_end();
            skip = plain.split_once(' ').is_some_and(|(id, name)| is_id(id) && gone(name));
        }
        if !skip {
            kept.extend(line);
        }
    }
    kept
}

/// Returns all refs of the git directory at `dir`.
pub fn all<F: ListFiles>(files: &F, dir: &Path) -> Result<BTreeMap<String, RefValue>, F::Error> {
    let mut refs = match files.read(&dir.join("packed-refs"), MAX_REFS)? {
        Some(text) => packed(&text),
        None => BTreeMap::new(),
    };
    let mut todo = vec![PathBuf::from("refs")];
    while let Some(below) = todo.pop() {
        for name in files.list(&dir.join(&below))? {
            let inner = below.join(&name);
            let path = dir.join(&inner);
            match files.kind(&path)? {
                Some(Kind::Dir) => todo.push(inner),
                Some(Kind::File) => {
                    let value = files.read(&path, MAX_LINE)?;
                    let value = value.and_then(|text| RefValue::parse(&text));
                    if let (Some(name), Some(value)) = (as_name(&inner), value) {
                        refs.insert(name, value);
                    }
                }
                _ => {}
            }
        }
    }
    Ok(refs)
}

/// Returns the refs and `HEAD` of the git directory at `dir`.
pub fn all_with_head<F: ListFiles>(
    files: &F,
    dir: &Path,
) -> Result<BTreeMap<String, RefValue>, F::Error> {
    let mut refs = all(files, dir)?;
    let head = files.read(&dir.join("HEAD"), MAX_LINE)?;
    refs.extend(head.and_then(|text| RefValue::parse(&text)).map(|value| ("HEAD".into(), value)));
    Ok(refs)
}

/// Returns the value of a ref in the `packed-refs` of the git directory at `dir`.
pub fn packed_value<F: Files>(
    files: &F,
    dir: &Path,
    name: &Path,
) -> Result<Option<RefValue>, F::Error> {
    let Some(name) = as_name(name) else { return Ok(None) };
    let text = files.read(&dir.join("packed-refs"), MAX_REFS)?;
    Ok(text.and_then(|text| packed(&text).remove(&name)))
}

/// Returns the `packed-refs` of the git directory at `dir` without one ref.
pub fn packed_without<F: Files>(files: &F, dir: &Path, name: &Path) -> Result<Vec<u8>, F::Error> {
    let text = files.read(&dir.join("packed-refs"), MAX_REFS)?.unwrap_or_default();
    Ok(without(&text, &|one| Path::new(one) == name))
}

/// Resolves a value to an object, given all refs.
pub fn resolve<'r>(
    value: Option<&'r RefValue>,
    refs: &'r BTreeMap<String, RefValue>,
) -> Option<&'r str> {
    match value? {
        RefValue::Symbolic(name) => refs.get(name).and_then(RefValue::id),
        RefValue::Id(id) => Some(id),
    }
}

/// Returns the line that git adds to the log of a ref when its value changes.
pub fn log_line(before: Option<&str>, after: Option<&str>, time: u64, message: &str) -> String {
    let [before, after] = [before, after].map(|id| id.unwrap_or(NO_OBJECT));
    format!("{before} {after} {LOG_IDENTITY} {time} +0000\t{message}\n")
}

/// Returns the value that a ref had before the last change in its log.
pub fn before_last_change(log: &[u8]) -> Option<RefValue> {
    last_line(log)?.get(..ID_LENGTH).and_then(RefValue::parse)
}

/// Returns the value that a ref had after the last change in its log.
pub(crate) fn after_last_change(log: &[u8]) -> Option<RefValue> {
    last_line(log)?.get(ID_LENGTH + 1..2 * ID_LENGTH + 1).and_then(RefValue::parse)
}

fn last_line(log: &[u8]) -> Option<&[u8]> {
    log.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty())
}

/// Returns the name of the ref at this path of a git directory.
pub(crate) fn as_name(path: &Path) -> Option<String> {
    path.to_str().filter(|name| is_name(name)).map(str::to_owned)
}

/// Returns true for the name of a git lock file, which is not a ref.
pub(crate) fn is_lock(name: Option<&OsStr>) -> bool {
    name.is_some_and(|name| name.as_encoded_bytes().ends_with(b".lock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_name_accepts_what_git_accepts() {
        for (name, valid) in [
            ("refs/heads/main", true),
            ("refs/heads/a/b-c_d.e", true),
            ("refs/stash", true),
            ("HEAD", false),
            ("refs/heads/", false),
            ("refs/heads/.x", false),
            ("refs/heads/x.lock", false),
            ("refs/heads/a..b", false),
            ("refs/heads/a b", false),
            ("refs/heads/a\u{1b}[2J", false),
            ("refs/heads/a~1", false),
            ("refs/heads/a@{1}", false),
            ("refs/heads/a.", false),
            ("refs/../config", false),
        ] {
            assert_eq!(is_name(name), valid, "{name:?}");
        }
    }

    #[test]
    fn without_removes_only_the_given_refs() {
        let id = "1".repeat(40);
        let text = format!(
            "# pack-refs with: peeled\n{id} refs/heads/a\n{id} refs/tags/t\n^{id}\n{id} refs/heads/b\n"
        );
        assert_eq!(packed(text.as_bytes()).len(), 3);
        let kept = without(text.as_bytes(), &|name| name == "refs/tags/t");
        let kept = String::from_utf8(kept).unwrap();
        assert_eq!(
            kept,
            format!("# pack-refs with: peeled\n{id} refs/heads/a\n{id} refs/heads/b\n")
        );
    }
}
