//! The repository that a path belongs to, and the path in its git directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandbox_linux::tree::Kind;

use crate::files::Files;
use crate::layout::{BARE, dot_git};
use crate::refs::{MAX_LINE, RefValue};

/// Assigns paths to repositories that exist on the host or in the session, and reads each directory once.
pub struct Locator<'f, E> {
    session: &'f dyn Files<Error = E>,
    host: &'f dyn Files<Error = E>,
    shaped: BTreeMap<PathBuf, bool>,
}

/// Path relative to its git directory.
pub struct Located {
    /// The git directory; empty if it is the root of the tree.
    pub git_dir: PathBuf,
    /// The path in it; empty for the git directory itself.
    pub inner: PathBuf,
}

impl<'f, E> Locator<'f, E> {
    /// Creates a locator for two states of a tree.
    pub fn new(session: &'f dyn Files<Error = E>, host: &'f dyn Files<Error = E>) -> Self {
        Self { session, host, shaped: BTreeMap::new() }
    }

    /// Locates a path. Returns `None` if it is not in a git directory.
    pub fn locate(&mut self, path: &Path) -> Result<Option<Located>, E> {
        if let Some(dir) = dot_git(path) {
            if dir == path && self.session.kind(path)?.or(self.host.kind(path)?) != Some(Kind::Dir)
            {
                // A `.git` file points git to another directory.
                return Ok(None);
            }
            let dir = self.module(dir.to_path_buf(), path)?;
            return Ok(located(dir, path));
        }
        for dir in path.ancestors().skip(1) {
            let inner = path.strip_prefix(dir).unwrap_or(path);
            let first = inner.iter().next();
            if BARE.iter().any(|name| first.is_some_and(|first| first == *name))
                && self.is_shaped(dir)?
            {
                return Ok(located(dir.to_path_buf(), path));
            }
        }
        Ok(None)
    }

    /// Finds the git directory of a submodule. It is inside the superproject's git directory, under a name
    /// that may contain slashes.
    fn module(&mut self, mut dir: PathBuf, path: &Path) -> Result<PathBuf, E> {
        'deeper: loop {
            let modules = dir.join("modules");
            let Ok(below) = path.strip_prefix(&modules) else { return Ok(dir) };
            let mut inner = modules;
            for name in below {
                inner.push(name);
                if inner != path && self.is_shaped(&inner)? {
                    dir = inner;
                    continue 'deeper;
                }
            }
            return Ok(dir);
        }
    }

    /// Returns true when git would take a directory for a git directory, on the host or in the session.
    fn is_shaped(&mut self, dir: &Path) -> Result<bool, E> {
        if let Some(known) = self.shaped.get(dir) {
            return Ok(*known);
        }
        let head = dir.join("HEAD");
        let is_head =
            |text: Option<Vec<u8>>| text.is_some_and(|text| RefValue::parse(&text).is_some());
        let mut shaped = is_head(self.session.read(&head, MAX_LINE)?)
            || is_head(self.host.read(&head, MAX_LINE)?);
        for name in ["objects", "refs"] {
            let path = dir.join(name);
            shaped = shaped
                && (self.session.kind(&path)? == Some(Kind::Dir)
                    || self.host.kind(&path)? == Some(Kind::Dir));
        }
        self.shaped.insert(dir.to_path_buf(), shaped);
        Ok(shaped)
    }
}

fn located(git_dir: PathBuf, path: &Path) -> Option<Located> {
    let inner = path.strip_prefix(&git_dir).ok()?.to_path_buf();
    Some(Located { git_dir, inner })
}
