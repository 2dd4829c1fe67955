//! Markers: the files under `/run/agent-sandbox` that contain the launcher's rule for each name.
//!
//! ```text
//! agent-sandbox    this binary
//! bin/NAME         the real program, if a rule needs it
//! wrappers/NAME    a script, or `deny`
//! presets/NAME     `git` and its facts, `raw`, or `multicall`
//! outer/           the runtime directory of the outer sandbox
//! ```

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use sandbox_protocol::layout::{self, runtime};

/// Limit of outer sandboxes that are searched. Each adds six bytes to a path, and paths are limited to `PATH_MAX`, 4096.
const DEPTH: usize = 600;

/// Rule of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Marker {
    /// Refused.
    Deny,
    /// A script in `wrappers/`.
    Script,
    /// The real program: its file is covered because of another name.
    Raw,
    /// A program with many names, of which only some have a rule.
    Multicall {
        /// True if its first argument may be one of the names.
        applets: bool,
    },
    /// `@git`.
    Git(GitFacts),
}

/// Facts about the sandbox that `@git` needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GitFacts {
    /// Directories in which every repository is expendable.
    pub(super) scratch: Vec<PathBuf>,
    /// Variables that select git's configuration files, with their values at the start of the sandbox.
    pub(super) env: Vec<(OsString, OsString)>,
    /// Work tree whose git directory is writable, although most of its files are not.
    pub(super) enclosing: Option<PathBuf>,
}

impl Marker {
    /// Returns the content of the file in `presets/`, or in `wrappers/` for a refusal.
    pub(super) fn render(&self) -> Vec<u8> {
        match self {
            Self::Deny | Self::Script => b"deny\n".to_vec(),
            Self::Raw => b"raw\n".to_vec(),
            Self::Multicall { applets: false } => b"multicall\n".to_vec(),
            Self::Multicall { applets: true } => b"multicall applets\n".to_vec(),
            Self::Git(facts) => facts.render(),
        }
    }

    fn of_wrapper(content: &[u8]) -> Self {
        if content.starts_with(b"#!") { Self::Script } else { Self::Deny }
    }

    /// Parses a file in `presets/`. Unknown content is the strictest rule.
    fn of_preset(content: &[u8]) -> Self {
        match content.split(|byte| *byte == b'\n').next() {
            Some(b"raw") => Self::Raw,
            Some(b"multicall") => Self::Multicall { applets: false },
            Some(b"multicall applets") => Self::Multicall { applets: true },
            Some(b"git") => Self::Git(GitFacts::parse(content)),
            _ => Self::Deny,
        }
    }
}

impl GitFacts {
    fn render(&self) -> Vec<u8> {
        let mut content = b"git\n".to_vec();
        let mut line = |words: &[&[u8]]| {
            if words.iter().all(|word| !word.contains(&b'\n')) {
                content.extend(words.concat());
                content.push(b'\n');
            }
        };
        for root in &self.scratch {
            line(&[b"scratch ", root.as_os_str().as_bytes()]);
        }
        if let Some(root) = &self.enclosing {
            line(&[b"enclosing ", root.as_os_str().as_bytes()]);
        }
        for (name, value) in &self.env {
            line(&[b"env ", name.as_bytes(), b"=", value.as_bytes()]);
        }
        content
    }

    fn parse(content: &[u8]) -> Self {
        let mut facts = Self::default();
        for line in content.split(|byte| *byte == b'\n') {
            if let Some(root) = line.strip_prefix(b"scratch ") {
                facts.scratch.push(OsStr::from_bytes(root).into());
            } else if let Some(root) = line.strip_prefix(b"enclosing ") {
                facts.enclosing = Some(OsStr::from_bytes(root).into());
            } else if let Some(pair) = line.strip_prefix(b"env ")
                && let Some(at) = pair.iter().position(|byte| *byte == b'=')
            {
                let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
                facts.env.push((text(&pair[..at]), text(&pair[at + 1..])));
            }
        }
        facts
    }
}

/// Rule, with the runtime directory that it was found in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) root: PathBuf,
    pub(super) name: OsString,
    pub(super) marker: Marker,
}

impl Found {
    /// Returns the path of the real program.
    pub(super) fn real(&self) -> PathBuf {
        self.root.join(runtime::BIN).join(&self.name)
    }

    /// Returns the path of the script, for a rule that is one.
    pub(super) fn script(&self) -> PathBuf {
        self.root.join(runtime::WRAPPERS).join(&self.name)
    }
}

/// Finds the rule of a name. The innermost sandbox takes precedence over outer ones.
pub(super) fn find(runtime: &Path, name: &OsStr) -> Option<Found> {
    search(runtime, name, |root| {
        let wrapper =
            read(&root.join(runtime::WRAPPERS).join(name)).map(|text| Marker::of_wrapper(&text));
        wrapper.or_else(|| preset(root, name))
    })
}

/// Finds the rule of a file, for a name that has none. For a program with many names the multicall marker takes
/// precedence, so that its other names keep working.
pub(super) fn find_by_file(runtime: &Path, name: &OsStr) -> Option<Found> {
    let many = search(runtime, name, |root| {
        preset(root, name).filter(|marker| matches!(marker, Marker::Multicall { .. }))
    });
    many.or_else(|| find(runtime, name))
}

fn search(runtime: &Path, name: &OsStr, ask: impl Fn(&Path) -> Option<Marker>) -> Option<Found> {
    if name.is_empty() || name == "." || name == ".." || name.as_bytes().contains(&b'/') {
        return None;
    }
    let mut root = runtime.to_owned();
    for _ in 0..DEPTH {
        if let Some(marker) = ask(&root) {
            return Some(Found { root, name: name.to_owned(), marker });
        }
        root.push(runtime::OUTER);
        if !root.join(layout::BINARY).try_exists().unwrap_or(false) {
            return None;
        }
    }
    None
}

fn preset(root: &Path, name: &OsStr) -> Option<Marker> {
    read(&root.join(runtime::PRESETS).join(name)).map(|text| Marker::of_preset(&text))
}

/// Reads a marker. One that exists but cannot be read is empty, which is the strictest rule.
fn read(path: &Path) -> Option<Vec<u8>> {
    match fs::read(path) {
        Ok(content) => Some(content),
        Err(_) if path.try_exists().unwrap_or(false) => Some(Vec::new()),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_round_trip() {
        let facts = GitFacts {
            scratch: vec!["/tmp".into(), "/a b".into()],
            env: vec![("HOME".into(), "/home/a=b".into())],
            enclosing: Some("/home/a b/repo".into()),
        };
        for marker in [
            Marker::Deny,
            Marker::Raw,
            Marker::Multicall { applets: true },
            Marker::Multicall { applets: false },
            Marker::Git(facts),
        ] {
            assert_eq!(Marker::of_preset(&marker.render()), marker);
        }
        assert_eq!(Marker::of_preset(b"gti\n"), Marker::Deny);
        assert_eq!(Marker::of_preset(b""), Marker::Deny);
    }

    #[test]
    fn find_prefers_the_innermost_sandbox() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("wrappers/a", "deny\n"),
            ("outer/agent-sandbox", ""),
            ("outer/presets/a", "raw\n"),
            ("outer/outer/agent-sandbox", ""),
            ("outer/outer/wrappers/b", "#!/bin/sh\n"),
            ("outer/outer/outer/wrappers/c", "deny\n"),
        ] {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let of = |name: &str| find(dir.path(), OsStr::new(name)).map(|found| found.marker);
        assert_eq!(of("a"), Some(Marker::Deny));
        assert_eq!(of("b"), Some(Marker::Script));
        assert_eq!(of("c"), None, "no sandbox is mounted there");
        assert_eq!(of("../wrappers/a"), None);
        assert_eq!(of(""), None);
    }
}
