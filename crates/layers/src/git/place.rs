//! The repository that a path belongs to, and what the path is in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::inside::Inside;
use crate::RelPath;
use crate::diff::DiffError;
use crate::host::Kind;
use crate::repository::{Value, dot_git};

/// Top-level names of a bare repository.
const SHAPE: [&str; 5] = ["HEAD", "objects", "refs", "packed-refs", "logs"];

/// Tells repositories apart, and looks at each directory once.
pub(super) struct Places<'i, 'v> {
    inside: &'i Inside<'v>,
    shaped: BTreeMap<PathBuf, bool>,
}

/// A path of a repository.
pub(super) struct Place {
    /// The git directory, below the root; empty if it is the root.
    pub(super) dir: PathBuf,
    /// The path in it; empty for itself.
    pub(super) inner: PathBuf,
}

impl<'i, 'v> Places<'i, 'v> {
    pub(super) fn new(inside: &'i Inside<'v>) -> Self {
        Self { inside, shaped: BTreeMap::new() }
    }

    /// The repository of a path, if it lies in one's git directory.
    pub(super) fn of(&mut self, path: &RelPath) -> Result<Option<Place>, DiffError> {
        let path = path.as_path();
        if let Some(dir) = dot_git(path) {
            if dir == path
                && self.inside.kind(path)?.or(self.inside.host_kind(path)?) != Some(Kind::Dir)
            {
                // A file that leads git elsewhere.
                return Ok(None);
            }
            let dir = self.module(dir.to_path_buf(), path)?;
            return Ok(place(dir, path));
        }
        for dir in path.ancestors().skip(1) {
            let inner = path.strip_prefix(dir).unwrap_or(path);
            let first = inner.iter().next();
            if SHAPE.iter().any(|name| first.is_some_and(|first| first == *name))
                && self.is_shaped(dir)?
            {
                return Ok(place(dir.to_path_buf(), path));
            }
        }
        Ok(None)
    }

    /// The git directory of a submodule has its place in that of the repository around it, under a
    /// name that may hold slashes.
    fn module(&mut self, mut dir: PathBuf, path: &Path) -> Result<PathBuf, DiffError> {
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
    fn is_shaped(&mut self, dir: &Path) -> Result<bool, DiffError> {
        if let Some(known) = self.shaped.get(dir) {
            return Ok(*known);
        }
        let (head, inside) = (dir.join("HEAD"), self.inside);
        let is_head =
            |text: Option<Vec<u8>>| text.is_some_and(|text| Value::parse(&text).is_some());
        let mut shaped =
            is_head(inside.file(&head, 8192)?) || is_head(inside.on_host(&head, 8192)?);
        for name in ["objects", "refs"] {
            let path = dir.join(name);
            shaped = shaped
                && (inside.kind(&path)? == Some(Kind::Dir)
                    || inside.host_kind(&path)? == Some(Kind::Dir));
        }
        self.shaped.insert(dir.to_path_buf(), shaped);
        Ok(shaped)
    }
}

fn place(dir: PathBuf, path: &Path) -> Option<Place> {
    let inner = path.strip_prefix(&dir).ok()?.to_path_buf();
    Some(Place { dir, inner })
}

/// Returns true for files that `git init` puts into a new repository and git does not need.
pub(super) fn is_template(inner: &Path) -> bool {
    let sample = inner.extension().is_some_and(|end| end == "sample");
    // `shallow` is read, and written with the repository.
    inner == Path::new("description")
        || inner == Path::new("shallow")
        || inner == Path::new("info/exclude")
        || (inner.starts_with("hooks") && sample && inner.iter().count() == 2)
}
