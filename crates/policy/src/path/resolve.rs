//! Resolution of patterns to real paths. Every symlink is followed and recorded.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::name::NameMatcher;
use super::pattern::{Pattern, PatternError, clean};
use crate::config::{Access, Origin, PathRule, Sourced};

/// Way in which a rule matched a path. A greater value is stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Matched {
    /// The rule is a glob that matches the path.
    Glob,
    /// The rule names the path.
    Exact,
}

/// Type of the file at a resolved path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A directory.
    Dir,
    /// A regular file, socket, pipe or device.
    File,
    /// Nothing: the path does not exist.
    Missing,
}

/// A rule, applied to a real path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The path. The part that exists contains no symlinks.
    pub path: PathBuf,
    /// Type of the file.
    pub kind: Kind,
    /// Access that the rule gives.
    pub access: Access,
    /// Way in which the rule matched.
    pub matched: Matched,
    /// File and line, preset or flag of the rule.
    pub origin: Origin,
    /// Text of the rule.
    pub pattern: String,
    /// Directories that contain the symlinks that were followed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<PathBuf>,
}

/// A rule that cannot be resolved.
#[derive(Debug, Error)]
#[error("{origin}: {error}")]
pub struct ResolveError {
    /// File and line, preset or flag of the rule.
    pub origin: Origin,
    /// The cause.
    pub error: PatternError,
}

/// Resolved location of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPath {
    /// The real path of the part that exists, followed by the rest as written.
    pub path: PathBuf,
    /// Type of the file.
    pub kind: Kind,
    /// Directories that contain the symlinks that were followed.
    pub links: Vec<PathBuf>,
}

/// Resolver of paths. It caches directories, so that a hundred rules below the home directory cost a hundred lookups and
/// not a thousand.
#[derive(Debug, Default)]
pub struct Resolver {
    dirs: HashMap<OsString, ResolvedPath>,
}

/// Most symlinks that one path may lead through. The kernel has the same limit: `path_resolution(7)`.
const MAX_LINKS: usize = 40;

impl Resolver {
    /// Follows every symlink of an absolute path. A path that does not exist, or leads below a file or into an
    /// inaccessible directory, is `Missing`: a process inside cannot get any further either.
    pub fn place(&mut self, path: &Path) -> ResolvedPath {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return ResolvedPath { path: PathBuf::from("/"), kind: Kind::Dir, links: Vec::new() };
        };
        let parent = self.dir(parent);
        if parent.kind != Kind::Dir {
            return ResolvedPath {
                path: parent.path.join(name),
                kind: Kind::Missing,
                links: parent.links.clone(),
            };
        }
        enter(parent, name)
    }

    /// Looks a path up in the cache: `true` for a directory without symlinks, `false` for a path that does not exist.
    pub fn is_dir(&self, path: &OsStr) -> Option<bool> {
        let place = self.dirs.get(path).filter(|place| place.path.as_os_str() == path)?;
        match place.kind {
            Kind::Dir => Some(true),
            Kind::Missing => Some(false),
            Kind::File => None,
        }
    }

    fn dir(&mut self, path: &Path) -> &ResolvedPath {
        if !self.dirs.contains_key(path.as_os_str()) {
            let place = self.place(path);
            self.dirs.insert(path.into(), place);
        }
        &self.dirs[path.as_os_str()]
    }

    /// Returns every real path that a rule applies to: none for a glob without matches.
    pub fn resolve(
        &mut self,
        rule: &Sourced<PathRule>,
        cwd: &Path,
        home: Option<&Path>,
    ) -> Result<Vec<Resolved>, ResolveError> {
        let PathRule { access, pattern, .. } = &rule.value;
        let parsed = Pattern::parse(pattern, rule.value.base(cwd), home)
            .map_err(|error| ResolveError { origin: rule.origin.clone(), error })?;
        let (matched, paths) = match parsed {
            Pattern::Exact(path) => (Matched::Exact, vec![path]),
            Pattern::Glob { base, segments } => (Matched::Glob, expand(&base, &segments)),
        };
        let resolved = |path: PathBuf| {
            let ResolvedPath { path, kind, links } = self.place(&path);
            let (origin, pattern) = (rule.origin.clone(), rule.value.spelled());
            Resolved { path, kind, access: *access, matched, origin, pattern, links }
        };
        Ok(paths.into_iter().map(resolved).collect())
    }
}

/// Resolves one more name, through all symlinks.
fn enter(ResolvedPath { path: dir, links, .. }: &ResolvedPath, name: &OsStr) -> ResolvedPath {
    let (path, mut links) = (dir.join(name), links.clone());
    let Ok(metadata) = fs::symlink_metadata(&path) else {
        return ResolvedPath { path, kind: Kind::Missing, links };
    };
    if !metadata.is_symlink() {
        let kind = if metadata.is_dir() { Kind::Dir } else { Kind::File };
        return ResolvedPath { path, kind, links };
    }
    links.push(dir.clone());
    // All links of the path count together: nested chains must not take forever.
    let target = fs::read_link(&path).ok().filter(|_| links.len() <= MAX_LINKS);
    let Some(target) = target else {
        return ResolvedPath { path, kind: Kind::Missing, links };
    };
    // The kernel resolves `..` in a link against the real directory, component by component: path_resolution(7).
    let start = if target.is_absolute() { PathBuf::from("/") } else { dir.clone() };
    let mut at = ResolvedPath { path: start, kind: Kind::Dir, links };
    for component in target.components() {
        at = match (component, at.kind) {
            (Component::Normal(name), Kind::Dir) => enter(&at, name),
            (Component::Normal(name), _) => {
                ResolvedPath { path: at.path.join(name), kind: Kind::Missing, ..at }
            }
            (Component::ParentDir, Kind::Dir) => {
                ResolvedPath { path: clean(&at.path.join("..")), ..at }
            }
            // The kernel finds nothing at `missing/../key`, so a rule about it must not apply to `key`.
            (Component::ParentDir, Kind::Missing) => return at,
            (Component::ParentDir, Kind::File) => {
                return ResolvedPath { path, kind: Kind::Missing, ..at };
            }
            (Component::RootDir | Component::CurDir | Component::Prefix(_), _) => at,
        };
    }
    at
}

/// Returns the existing paths below `base` that the segments match, without duplicates.
pub fn expand(base: &Path, segments: &[Option<NameMatcher>]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(base, segments, &mut found);
    found.sort();
    found.dedup();
    found
}

fn walk(dir: &Path, segments: &[Option<NameMatcher>], found: &mut Vec<PathBuf>) {
    let Some((first, rest)) = segments.split_first() else {
        found.push(dir.to_path_buf());
        return;
    };
    if first.is_none() && !rest.is_empty() {
        // `**` also matches zero directories.
        walk(dir, rest, found);
    }
    // A command of the same user cannot list an unreadable directory either.
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.filter_map(Result::ok) {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match first {
            None => {
                if rest.is_empty() {
                    found.push(entry.path());
                }
                if is_dir {
                    walk(&entry.path(), segments, found);
                }
            }
            Some(matcher) if matcher.is_match(entry.file_name()) => {
                if rest.is_empty() || is_dir || fs::metadata(entry.path()).is_ok_and(|m| m.is_dir())
                {
                    walk(&entry.path(), rest, found);
                }
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
