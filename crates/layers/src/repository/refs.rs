//! Refs as git stores them in files: loose ones, `packed-refs`, and what a valid name is.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::RelPath;
use crate::host::{HostTree, Kind, is_absent};

/// Larger files hold no refs.
pub(crate) const MAX_REFS: u64 = 64 << 20;
/// A loose ref or `HEAD` is one line.
const MAX_LINE: u64 = 8192;

/// Target of a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An object, in hexadecimal.
    Id(String),
    /// Another ref.
    Symbolic(String),
}

impl Value {
    /// Reads the content of a loose ref; nothing where git would not take it.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim_end_matches(['\n', '\r', ' ', '\t']);
        if let Some(name) = text.strip_prefix("ref:") {
            let name = name.trim_start();
            return is_name(name).then(|| Self::Symbolic(name.to_owned()));
        }
        is_id(text).then(|| Self::Id(text.to_owned()))
    }

    /// The content of a loose ref.
    pub fn line(&self) -> String {
        match self {
            Self::Id(id) => format!("{id}\n"),
            Self::Symbolic(name) => format!("ref: {name}\n"),
        }
    }

    /// The object that it names itself.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Id(id) => Some(id),
            Self::Symbolic(_) => None,
        }
    }
}

/// Returns true for the name of an object, as git writes it.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns true when git takes a name for a ref: `git check-ref-format`.
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

/// The refs of a `packed-refs` file. Lines that git would not take are left out.
pub(crate) fn packed(text: &[u8]) -> BTreeMap<String, Value> {
    let line = |line: &[u8]| {
        let (id, name) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        (is_id(id) && is_name(name)).then(|| (name.to_owned(), Value::Id(id.to_owned())))
    };
    text.split(|byte| *byte == b'\n').filter_map(line).collect()
}

/// A `packed-refs` file without some refs.
pub(crate) fn without(text: &[u8], gone: &dyn Fn(&str) -> bool) -> Vec<u8> {
    let (mut kept, mut skip) = (Vec::new(), false);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        // The line after a tag says what it points to.
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

/// All refs of a repository of the host.
pub(crate) fn of_host(host: &HostTree, dir: &Path) -> io::Result<BTreeMap<String, Value>> {
    let mut refs = match host_file(host, &dir.join("packed-refs"), MAX_REFS)? {
        Some(text) => packed(&text),
        None => BTreeMap::new(),
    };
    let mut todo = vec![PathBuf::from("refs")];
    while let Some(below) = todo.pop() {
        let Some(path) = RelPath::new(dir.join(&below)) else { continue };
        let names = match host.list(&path) {
            Err(error) if is_absent(&error) => continue,
            names => names?,
        };
        for name in names {
            let inner = below.join(&name);
            let Some(path) = RelPath::new(dir.join(&inner)) else { continue };
            match host.stat(&path)?.map(|found| found.kind) {
                Some(Kind::Dir) => todo.push(inner),
                Some(Kind::File) => {
                    let value = host_file(host, &dir.join(&inner), MAX_LINE)?;
                    let value = value.and_then(|text| Value::parse(&text));
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

/// The value of a ref in the host's `packed-refs`.
pub(crate) fn packed_value(host: &HostTree, dir: &Path, name: &Path) -> io::Result<Option<Value>> {
    let Some(name) = as_name(name) else { return Ok(None) };
    let text = host_file(host, &dir.join("packed-refs"), MAX_REFS)?;
    Ok(text.and_then(|text| packed(&text).remove(&name)))
}

/// The host's `packed-refs` without one ref.
pub(crate) fn packed_without(host: &HostTree, dir: &Path, name: &Path) -> io::Result<Vec<u8>> {
    let text = host_file(host, &dir.join("packed-refs"), MAX_REFS)?.unwrap_or_default();
    Ok(without(&text, &|one| Path::new(one) == name))
}

/// A file of the host up to a size; nothing where there is none.
pub(crate) fn host_file(host: &HostTree, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(path) = RelPath::new(path) else { return Ok(None) };
    match host.stat(&path)? {
        Some(found) if found.kind == Kind::File && found.stamp.size <= limit => {}
        _ => return Ok(None),
    }
    let mut text = Vec::new();
    host.open_file(&path)?.0.take(limit).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// The name of a ref that lies at this path of a repository.
pub(crate) fn as_name(path: &Path) -> Option<String> {
    path.to_str().filter(|name| is_name(name)).map(str::to_owned)
}

/// Returns true for the name of a lock of git, which does not name a ref.
pub(crate) fn is_lock(name: Option<&OsStr>) -> bool {
    name.is_some_and(|name| name.as_encoded_bytes().ends_with(b".lock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_git_takes() {
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
    fn packed_refs_lose_only_what_goes() {
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
