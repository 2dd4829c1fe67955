//! A root as the session sees it: the layer over the host's tree.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::diff::{DiffError, View};
use crate::host::Kind;
use crate::repository::host_file;
use crate::{Entry, Node, RelPath};

/// A root as the session sees it.
pub(super) struct Inside<'v> {
    pub(super) view: View<'v>,
    entries: BTreeMap<RelPath, Node>,
}

/// Where a path of the session comes from.
enum From<'i> {
    Layer(&'i Node),
    Host,
    Nowhere,
}

impl<'v> Inside<'v> {
    pub(super) fn new(view: View<'v>) -> Result<Self, DiffError> {
        let entries = view.layer.entries()?;
        let entries = entries.into_iter().map(|Entry { path, node }| (path, node)).collect();
        Ok(Self { view, entries })
    }

    fn from(&self, path: &RelPath) -> From<'_> {
        if let Some(node) = self.entries.get(path) {
            return From::Layer(node);
        }
        let above = path.as_path().ancestors().skip(1).filter_map(RelPath::new);
        for dir in above {
            match self.entries.get(&dir) {
                None | Some(Node::Dir { opaque: false, .. }) => {}
                Some(_) => return From::Nowhere,
            }
        }
        From::Host
    }

    /// Returns the type of a path in the session.
    pub(super) fn kind(&self, path: &Path) -> Result<Option<Kind>, DiffError> {
        let Some(path) = RelPath::new(path) else { return Ok(Some(Kind::Dir)) };
        Ok(match self.from(&path) {
            From::Nowhere | From::Layer(Node::Gone) => None,
            From::Layer(Node::Dir { .. }) => Some(Kind::Dir),
            From::Layer(Node::File { .. }) => Some(Kind::File),
            From::Layer(Node::Symlink { .. }) => Some(Kind::Symlink),
            From::Layer(Node::Special { .. }) => Some(Kind::Special),
            From::Host => self.host_kind(path.as_path())?,
        })
    }

    /// Returns the type of a path on the host.
    pub(super) fn host_kind(&self, path: &Path) -> Result<Option<Kind>, DiffError> {
        let Some(path) = RelPath::new(path) else { return Ok(Some(Kind::Dir)) };
        let found = self.view.host.stat(&path).map_err(|error| DiffError::host(&path, error))?;
        Ok(found.map(|found| found.kind))
    }

    /// A regular file of the session up to a size.
    pub(super) fn file(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, DiffError> {
        let Some(path) = RelPath::new(path) else { return Ok(None) };
        match self.from(&path) {
            From::Layer(Node::File { size, .. }) if *size <= limit => {
                let mut text = Vec::new();
                let read = self.view.layer.open(&path)?.take(limit).read_to_end(&mut text);
                read.map_err(|error| DiffError::host(&path, error))?;
                Ok(Some(text))
            }
            From::Host => self.on_host(path.as_path(), limit),
            _ => Ok(None),
        }
    }

    /// A regular file of the host up to a size.
    pub(super) fn on_host(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, DiffError> {
        host_file(self.view.host, path, limit)
            .map_err(|source| DiffError::Host { path: path.to_path_buf(), source })
    }
}
