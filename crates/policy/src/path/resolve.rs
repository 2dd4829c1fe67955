//! Patterns to real paths: every symlink followed, and remembered.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::name::NameMatcher;
use super::pattern::{Pattern, PatternError, clean};
use crate::config::{Access, Origin, PathRule, Sourced};

/// How a rule came to a path. The order is the strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Matched {
    /// By a pattern.
    Glob,
    /// By name.
    Exact,
}

/// What lies at a resolved path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A directory.
    Dir,
    /// A file, or a socket, pipe or device.
    File,
    /// Nothing, yet.
    Missing,
}

/// A rule at a real path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The path, free of symlinks as far as it exists.
    pub path: PathBuf,
    /// What lies there.
    pub kind: Kind,
    /// What the rule asks for.
    pub access: Access,
    /// How it matched.
    pub matched: Matched,
    /// Where the rule was written.
    pub origin: Origin,
    /// The rule as it was written.
    pub pattern: String,
    /// The directories in which symlinks lie that were followed on the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<PathBuf>,
}

/// A rule that cannot be resolved.
#[derive(Debug, Error)]
#[error("{origin}: {error}")]
pub struct ResolveError {
    /// Where it was written.
    pub origin: Origin,
    /// What is wrong with it.
    pub error: PatternError,
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The real path as far as it exists, the rest as written.
    pub path: PathBuf,
    /// What lies there.
    pub kind: Kind,
    /// Directories of the symlinks followed.
    pub links: Vec<PathBuf>,
}

/// Resolves paths and remembers directories, so that a hundred rules below home cost a hundred
/// look-ups and not a thousand.
#[derive(Debug, Default)]
pub struct Resolver {
    dirs: HashMap<OsString, Place>,
}

/// More than any sane chain of symlinks; the kernel stops at the same number.
const MAX_LINKS: usize = 40;

impl Resolver {
    /// Follows every symlink of an absolute path. A path that ends in nothing, below a file or in
    /// a closed directory is `Missing`: nobody inside can get further than we did.
    pub fn place(&mut self, path: &Path) -> Place {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Place { path: PathBuf::from("/"), kind: Kind::Dir, links: Vec::new() };
        };
        let parent = self.dir(parent);
        if parent.kind != Kind::Dir {
            return Place {
                path: parent.path.join(name),
                kind: Kind::Missing,
                links: parent.links.clone(),
            };
        }
        enter(parent, name)
    }

    /// Whether a path is a directory under its own name (`true`) or nothing at all (`false`), if
    /// that is known by now.
    pub fn is_dir(&self, path: &OsStr) -> Option<bool> {
        let place = self.dirs.get(path).filter(|place| place.path.as_os_str() == path)?;
        match place.kind {
            Kind::Dir => Some(true),
            Kind::Missing => Some(false),
            Kind::File => None,
        }
    }

    fn dir(&mut self, path: &Path) -> &Place {
        if !self.dirs.contains_key(path.as_os_str()) {
            let place = self.place(path);
            self.dirs.insert(path.into(), place);
        }
        &self.dirs[path.as_os_str()]
    }

    /// Every real path that a rule means. A glob that matches nothing is no rule at all.
    pub fn resolve(
        &mut self,
        rule: &Sourced<PathRule>,
        cwd: &Path,
        home: Option<&Path>,
    ) -> Result<Vec<Resolved>, ResolveError> {
        let PathRule { access, pattern } = &rule.value;
        let parsed = Pattern::parse(pattern, cwd, home)
            .map_err(|error| ResolveError { origin: rule.origin.clone(), error })?;
        let (matched, paths) = match parsed {
            Pattern::Exact(path) => (Matched::Exact, vec![path]),
            Pattern::Glob { base, segments } => (Matched::Glob, expand(&base, &segments)),
        };
        let resolved = |path: PathBuf| {
            let Place { path, kind, links } = self.place(&path);
            let (origin, pattern) = (rule.origin.clone(), pattern.clone());
            Resolved { path, kind, access: *access, matched, origin, pattern, links }
        };
        Ok(paths.into_iter().map(resolved).collect())
    }
}

/// Goes one name further, through as many symlinks as that takes.
fn enter(Place { path: dir, links, .. }: &Place, name: &OsStr) -> Place {
    let (path, mut links) = (dir.join(name), links.clone());
    let Ok(metadata) = fs::symlink_metadata(&path) else {
        return Place { path, kind: Kind::Missing, links };
    };
    if !metadata.is_symlink() {
        let kind = if metadata.is_dir() { Kind::Dir } else { Kind::File };
        return Place { path, kind, links };
    }
    links.push(dir.clone());
    // All links on the way count together: a chain of chains must not take for ever.
    let target = fs::read_link(&path).ok().filter(|_| links.len() <= MAX_LINKS);
    let Some(target) = target else {
        return Place { path, kind: Kind::Missing, links };
    };
    // `..` in a link is resolved against the real directory, component by component.
    let start = if target.is_absolute() { PathBuf::from("/") } else { dir.clone() };
    let mut at = Place { path: start, kind: Kind::Dir, links };
    for component in target.components() {
        at = match (component, at.kind) {
            (Component::Normal(name), Kind::Dir) => enter(&at, name),
            (Component::Normal(name), _) => {
                Place { path: at.path.join(name), kind: Kind::Missing, ..at }
            }
            (Component::ParentDir, Kind::Dir) => Place { path: clean(&at.path.join("..")), ..at },
            // There is no way back from nothing: `missing/../key` is not `key`, and a rule about
            // it must not stand where the rules about `key` stand.
            (Component::ParentDir, Kind::Missing) => return at,
            (Component::ParentDir, Kind::File) => {
                return Place { path, kind: Kind::Missing, ..at };
            }
            (Component::RootDir | Component::CurDir | Component::Prefix(_), _) => at,
        };
    }
    at
}

/// The existing paths below `base` that the segments match, each once.
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
        // `**` also stands for no directory at all.
        walk(dir, rest, found);
    }
    // What cannot be listed holds nothing that a command of the same user could list.
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

/// Whether an error means "there is nothing" rather than "something is wrong".
pub fn means_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    )
}

#[cfg(test)]
mod tests;
