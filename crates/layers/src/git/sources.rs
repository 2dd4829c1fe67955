//! Views of a root for the git crate: the session's files (the layer over the host), the host's files, and the record
//! of the host's files at the start of the session.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use sandbox_git::changes::{BaseFile, BaseFiles};
use sandbox_git::files::Files;
use sandbox_linux::tree;

use crate::diff::{DiffError, Origin, Origins, View};
use crate::host::{HostTree, Kind};
use crate::{LayerEntry, Node, RelPath};

/// A root as the session sees it.
pub(super) struct SessionFiles<'v> {
    view: View<'v>,
    entries: BTreeMap<RelPath, Node>,
}

/// Source of a path of the session.
enum From<'i> {
    Layer(&'i Node),
    Host,
    Nowhere,
}

impl<'v> SessionFiles<'v> {
    pub(super) fn new(view: View<'v>) -> Result<Self, DiffError> {
        let entries = view.layer.entries()?;
        let entries = entries.into_iter().map(|LayerEntry { path, node }| (path, node)).collect();
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
}

impl Files for SessionFiles<'_> {
    type Error = DiffError;

    fn kind(&self, path: &Path) -> Result<Option<tree::Kind>, DiffError> {
        let Some(path) = RelPath::new(path) else { return Ok(Some(tree::Kind::Dir)) };
        Ok(match self.from(&path) {
            From::Nowhere | From::Layer(Node::Gone) => None,
            From::Layer(Node::Dir { .. }) => Some(tree::Kind::Dir),
            From::Layer(Node::File { .. }) => Some(tree::Kind::File),
            From::Layer(Node::Symlink { .. }) => Some(tree::Kind::Link),
            From::Layer(Node::Special { .. }) => Some(tree::Kind::Special),
            From::Host => HostFiles(self.view.host).kind(path.as_path())?,
        })
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, DiffError> {
        let Some(path) = RelPath::new(path) else { return Ok(None) };
        match self.from(&path) {
            From::Layer(Node::File { size, .. }) if *size <= limit => {
                let mut text = Vec::new();
                let read = self.view.layer.open(&path)?.take(limit).read_to_end(&mut text);
                read.map_err(|error| DiffError::host(&path, error))?;
                Ok(Some(text))
            }
            From::Host => HostFiles(self.view.host).read(path.as_path(), limit),
            _ => Ok(None),
        }
    }
}

/// A root as the host has it.
pub(super) struct HostFiles<'h>(pub(super) &'h HostTree);

impl Files for HostFiles<'_> {
    type Error = DiffError;

    fn kind(&self, path: &Path) -> Result<Option<tree::Kind>, DiffError> {
        self.0.kind(path).map_err(|source| DiffError::Host { path: path.to_path_buf(), source })
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, DiffError> {
        let read = Files::read(self.0, path, limit);
        read.map_err(|source| DiffError::Host { path: path.to_path_buf(), source })
    }
}

/// The host's files at the start of the session.
pub(super) struct RecordedFiles<'r>(pub(super) &'r dyn Origins);

impl BaseFiles for RecordedFiles<'_> {
    type Error = DiffError;

    fn file(&self, path: &Path) -> Result<BaseFile, DiffError> {
        let Some(path) = RelPath::new(path) else { return Ok(BaseFile::Unknown) };
        Ok(match self.0.origin(&path)? {
            Origin::Absent | Origin::Perhaps => BaseFile::Absent,
            Origin::There(past) if past.kind == Kind::File => {
                BaseFile::File(self.0.ancestor(&path)?)
            }
            Origin::There(_) => BaseFile::Other,
            Origin::Unknown => BaseFile::Unknown,
        })
    }
}
