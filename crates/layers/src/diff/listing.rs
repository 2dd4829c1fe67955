//! List of changes of a filesystem outside a session, compared with the current base.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::compare::compare;
use super::patch::write_patch;
use super::{Change, Changes, DiffError, Origin, Origins, Past, Side, View};
use crate::host::HostTree;
use crate::tree::{Base as _, Directory};
use crate::{Layer, LayerEntry, LayerError, Node, RelPath};

/// Change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `A`, `M` or `D`.
    pub sign: char,
    /// `f`, `d`, `l` or `?`.
    pub kind: char,
    /// Path without a leading slash.
    pub path: String,
}

/// Failure to compare a filesystem with its base.
#[derive(Debug, Error)]
pub enum ListingError {
    /// The filesystem cannot be read.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The sides cannot be compared.
    #[error(transparent)]
    Diff(#[from] DiffError),
}

impl Hint for ListingError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Layer(error) => error.hint(),
            Self::Diff(error) => error.hint(),
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Layer(error) => error.exit_code(),
            Self::Diff(error) => error.exit_code(),
        }
    }
}

/// Filesystem and its base.
pub struct Listing<'l> {
    layer: &'l dyn Layer,
    host: HostTree,
    changes: Changes,
}

impl<'l> Listing<'l> {
    /// Compares a filesystem with its base.
    pub fn of(layer: &'l dyn Layer, base: &Path) -> Result<Self, ListingError> {
        let host = HostTree::open(base)
            .map_err(|source| LayerError::Io { path: base.to_owned(), source })?;
        let changes = compare(layer, &host, &Present(&host))?;
        Ok(Self { layer, host, changes })
    }

    /// Returns the changes, sorted by path.
    pub fn lines(&self) -> Result<Vec<Line>, ListingError> {
        let mut lines: BTreeMap<RelPath, Line> = top_most(&self.changes.list)
            .map(|change| (change.path.clone(), of_change(change)))
            .collect();
        for entry in self.layer.entries()? {
            if self.changes.get(&entry.path).is_none()
                && let Some(line) = of_attributes(self.layer, &self.host, &entry)?
            {
                lines.insert(entry.path, line);
            }
        }
        Ok(lines.into_values().collect())
    }

    /// Returns one patch for each file.
    pub fn patches(&self) -> impl Iterator<Item = Result<Vec<u8>, DiffError>> {
        self.changes.list.iter().map(|change| {
            let record = Present(&self.host);
            let view = View { layer: self.layer, host: &self.host, record: &record };
            let mut bytes = Vec::new();
            write_patch(&view, change, &mut bytes)?;
            Ok(bytes)
        })
    }
}

/// Returns all entries of a filesystem without a base.
pub fn entries(layer: &dyn Layer) -> Result<Vec<Line>, LayerError> {
    Ok(layer.entries()?.iter().map(of_entry).collect())
}

/// Current base, because a filesystem outside a session has no record of an earlier state.
struct Present<'h>(&'h HostTree);

impl Origins for Present<'_> {
    fn origin(&self, path: &RelPath) -> Result<Origin, LayerError> {
        let found = self.0.stat(path);
        let found =
            found.map_err(|source| LayerError::Io { path: path.as_path().into(), source })?;
        Ok(found.map_or(Origin::Absent, |found| {
            let executable = found.is_executable();
            Origin::There(Past { kind: found.kind, stamp: found.stamp, executable, digest: None })
        }))
    }

    fn ancestor(&self, _: &RelPath) -> Result<Option<Vec<u8>>, LayerError> {
        Ok(None)
    }
}

/// Leaves out entries of a directory that is removed itself.
fn top_most(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let mut gone: Option<&Path> = None;
    changes.iter().filter(move |change| {
        let path = change.path.as_path();
        if change.after.is_some() {
            return true;
        }
        let below = gone.is_some_and(|top| path.starts_with(top));
        if !below {
            gone = Some(path);
        }
        !below
    })
}

fn of_change(change: &Change) -> Line {
    let (sign, side) = match (&change.before, &change.after) {
        (None, after) => ('A', after),
        (Some(_), Some(_)) => ('M', &change.after),
        (before, None) => ('D', before),
    };
    let kind = match side {
        Some(Side::File { .. }) => 'f',
        Some(Side::Dir) => 'd',
        Some(Side::Symlink { .. }) => 'l',
        Some(Side::Special) | None => '?',
    };
    Line { sign, kind, path: change.path.as_path().to_string_lossy().into_owned() }
}

/// Returns a line for a path with the base's content but another mode, owner or attributes.
fn of_attributes(
    layer: &dyn Layer,
    host: &HostTree,
    entry: &LayerEntry,
) -> Result<Option<Line>, LayerError> {
    let (meta, kind) = match &entry.node {
        Node::File { meta, .. } => (meta, 'f'),
        Node::Dir { meta, .. } => (meta, 'd'),
        Node::Symlink { meta, .. } => (meta, 'l'),
        Node::Special { meta } => (meta, '?'),
        Node::Gone => return Ok(None),
    };
    let path = entry.path.as_path();
    let io = |source| LayerError::Io { path: path.to_owned(), source };
    let Some(base) = host.stat(&entry.path).map_err(io)? else { return Ok(None) };
    let same = (meta.mode & 0o7777, meta.uid, meta.gid) == (base.mode & 0o7777, base.uid, base.gid);
    let own = users(layer.xattrs(&entry.path)?.into_iter());
    let dir = Directory::open(host.path()).map_err(io)?;
    if same && own == users(dir.xattrs(path).map_err(io)?.into_iter().map(|(name, _)| name)) {
        return Ok(None);
    }
    Ok(Some(Line { sign: 'M', kind, path: path.to_string_lossy().into_owned() }))
}

/// Keeps the names of user attributes.
fn users(names: impl Iterator<Item = OsString>) -> BTreeSet<OsString> {
    names.filter(|name| name.as_encoded_bytes().starts_with(b"user.")).collect()
}

fn of_entry(entry: &LayerEntry) -> Line {
    let (sign, kind) = match &entry.node {
        Node::Gone => ('D', '?'),
        Node::Dir { .. } => ('A', 'd'),
        Node::File { .. } => ('A', 'f'),
        Node::Symlink { .. } => ('A', 'l'),
        Node::Special { .. } => ('A', '?'),
    };
    Line { sign, kind, path: entry.path.as_path().to_string_lossy().into_owned() }
}
