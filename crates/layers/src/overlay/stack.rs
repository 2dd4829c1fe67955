//! Merged view of several upper directories. For each name the topmost layer that has it decides.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::upper::{Attribute, Said, Upper};
use crate::RelPath;
use crate::change::{Layer, LayerEntry, LayerError, Listing, Node};

/// Layers over a base, the topmost first.
#[derive(Debug)]
pub struct Stack {
    layers: Vec<Upper>,
    /// `None` if the stack is on top of further layers.
    base: Option<PathBuf>,
}

/// Directory merged from some of the layers, and from the base unless it is opaque.
struct Merged {
    path: PathBuf,
    layers: Vec<usize>,
}

impl Stack {
    /// Opens layers in the order of a session, the lowest first.
    pub fn open(layers: &[PathBuf], base: &Path) -> io::Result<Self> {
        Ok(Self { base: Some(base.to_path_buf()), ..Self::part(layers)? })
    }

    /// Opens layers on top of other layers, in which every whiteout counts.
    pub fn part(layers: &[PathBuf]) -> io::Result<Self> {
        let layers = layers.iter().rev().map(|path| Upper::open(path));
        Ok(Self { layers: layers.collect::<Result<_, _>>()?, base: None })
    }

    /// Returns the topmost layer's entry for each name of a directory, with the lower layers that are merged into it.
    fn list(&self, dir: &Merged) -> Result<BTreeMap<OsString, Name>, LayerError> {
        let mut names: BTreeMap<OsString, Name> = BTreeMap::new();
        for &index in &dir.layers {
            let layer = &self.layers[index];
            let Some(open) = layer.dir(&dir.path)? else { continue };
            for (name, said) in layer.entries(&open, &dir.path)? {
                match names.get_mut(&name) {
                    Some(known) => known.below(index, &said),
                    None => drop(names.insert(name, Name::new(index, said))),
                }
            }
        }
        Ok(names)
    }

    /// Returns the layer that provides the entry at this path.
    fn owner(&self, path: &RelPath) -> Result<&Upper, LayerError> {
        self.owner_number(path).map(|number| &self.layers[number])
    }

    /// Opens a file of the stack, and returns it with an identity that its hard links share.
    pub(super) fn source(&self, path: &RelPath) -> io::Result<(std::fs::File, (usize, u64))> {
        let number = self.owner_number(path).map_err(io_error)?;
        let file = self.layers[number].file(path.as_path()).map_err(io_error)?;
        let inode = std::os::unix::fs::MetadataExt::ino(&file.metadata()?);
        Ok((file, (number, inode)))
    }

    /// Returns the stored attributes of an entry, without those of overlayfs.
    pub(super) fn raw_attributes(&self, path: &RelPath) -> io::Result<Vec<Attribute>> {
        self.owner(path).and_then(|layer| layer.raw_attributes(path.as_path())).map_err(io_error)
    }

    fn owner_number(&self, path: &RelPath) -> Result<usize, LayerError> {
        if self.layers.len() == 1 {
            return Ok(0);
        }
        let mut layers: Vec<usize> = (0..self.layers.len()).collect();
        let mut at = PathBuf::new();
        for name in path.as_path() {
            at.push(name);
            let mut found: Option<Name> = None;
            for index in layers {
                let Some(said) = self.layers[index].look(&at)? else { continue };
                match &mut found {
                    Some(known) => known.below(index, &said),
                    None => found = Some(Name::new(index, said)),
                }
            }
            layers = found.ok_or_else(|| missing(path))?.layers;
        }
        layers.first().copied().ok_or_else(|| missing(path))
    }

    /// Returns true for a whiteout that hides nothing in the base. The name existed only in a layer below.
    fn hides_nothing(&self, path: &Path) -> bool {
        let Some(base) = &self.base else { return false };
        let found = std::fs::symlink_metadata(base.join(path));
        found.is_err_and(|error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        })
    }
}

/// Merged entry for one name.
struct Name {
    said: Said,
    /// Layers that provide it, topmost first. More than one only for merged directories.
    layers: Vec<usize>,
    /// True if no lower layer can add to it.
    closed: bool,
}

impl Name {
    fn new(index: usize, said: Said) -> Self {
        let closed = !matches!(said, Said::Node(Node::Dir { opaque: false, .. }));
        Self { said, layers: vec![index], closed }
    }

    fn below(&mut self, index: usize, said: &Said) {
        if self.closed {
            return;
        }
        let merges = matches!(said, Said::Node(Node::Dir { .. }));
        if merges {
            self.layers.push(index);
        }
        self.closed = !matches!(said, Said::Node(Node::Dir { opaque: false, .. }));
        if let (true, Said::Node(Node::Dir { opaque, .. })) = (self.closed, &mut self.said) {
            *opaque = true;
        }
    }
}

fn io_error(error: LayerError) -> io::Error {
    match error {
        LayerError::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}

fn missing(path: &RelPath) -> LayerError {
    LayerError::Io {
        path: path.as_path().to_path_buf(),
        source: io::Error::from(io::ErrorKind::NotFound),
    }
}

impl Layer for Stack {
    fn entries(&self) -> Result<Vec<LayerEntry>, LayerError> {
        self.listing().map(|listing| listing.entries)
    }

    fn listing(&self) -> Result<Listing, LayerError> {
        let mut todo =
            vec![Merged { path: PathBuf::new(), layers: (0..self.layers.len()).collect() }];
        let mut found = Listing::default();
        while let Some(dir) = todo.pop() {
            for (name, Name { said, layers, .. }) in self.list(&dir)? {
                let full = dir.path.join(name);
                let path = RelPath::new(&full).ok_or_else(|| LayerError::Damaged {
                    what: format!("invalid name `{}`", full.display()),
                })?;
                let node = match said {
                    Said::Gone if self.hides_nothing(&full) => {
                        found.over_nothing.push(path);
                        continue;
                    }
                    Said::Gone => Node::Gone,
                    Said::Node(node) => node,
                };
                if matches!(node, Node::Dir { .. }) {
                    todo.push(Merged { path: full, layers });
                }
                found.entries.push(LayerEntry { path, node });
            }
        }
        found.entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    fn open(&self, path: &RelPath) -> Result<Box<dyn Read + Send>, LayerError> {
        Ok(Box::new(self.owner(path)?.file(path.as_path())?))
    }

    fn xattrs(&self, path: &RelPath) -> Result<Vec<OsString>, LayerError> {
        self.owner(path)?.xattrs(path.as_path())
    }

    fn is_copy(&self, path: &RelPath) -> Result<bool, LayerError> {
        self.owner(path)?.is_copy(path.as_path())
    }
}

#[cfg(test)]
mod tests;
