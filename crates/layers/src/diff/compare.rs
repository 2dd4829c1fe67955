//! Comparison of a layer with its base, path by path.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::origin::{Digest, Origin, Origins, Past};
use super::{Change, Changes, DiffError, Odd, Side};
use crate::host::{HostEntry, HostTree, Kind, is_out_of_reach};
use crate::{Layer, LayerEntry, Meta, Node, RelPath};

/// Maximum number of files listed for removed directories.
pub(crate) const MAX_GONE: usize = 200_000;

/// Compares a layer with its base. The cost grows with the layer and with the content of removed directories.
pub fn compare(
    layer: &dyn Layer,
    host: &HostTree,
    record: &dyn Origins,
) -> Result<Changes, DiffError> {
    let entries: BTreeMap<RelPath, Node> =
        layer.entries()?.into_iter().map(|LayerEntry { path, node }| (path, node)).collect();
    let mut look =
        Comparison { layer, host, record, entries: &entries, found: BTreeMap::new(), gone: 0 };
    let mut hidden: Option<&RelPath> = None;
    for (path, node) in &entries {
        let below = hidden.is_some_and(|top| path.as_path().starts_with(top.as_path()));
        look.entry(path, node)?;
        if look.hides(path, node)? && !below {
            look.gone_below(path)?;
            hidden = Some(path);
        }
    }
    let truncated = look.gone > MAX_GONE;
    Ok(Changes { list: look.found.into_values().collect(), truncated })
}

struct Comparison<'l> {
    layer: &'l dyn Layer,
    host: &'l HostTree,
    record: &'l dyn Origins,
    entries: &'l BTreeMap<RelPath, Node>,
    found: BTreeMap<RelPath, Change>,
    gone: usize,
}

impl Comparison<'_> {
    /// Returns true when the layer hides a base directory here.
    fn hides(&self, path: &RelPath, node: &Node) -> Result<bool, DiffError> {
        if matches!(node, Node::Dir { opaque: false, .. }) {
            return Ok(false);
        }
        let base = self.host.stat(path).map_err(|error| DiffError::host(path, error))?;
        Ok(base.is_some_and(|base| base.kind == Kind::Dir))
    }

    fn entry(&mut self, path: &RelPath, node: &Node) -> Result<(), DiffError> {
        let now = self.host.stat(path).map_err(|error| DiffError::host(path, error))?;
        let before = self.side_of_host(path, now.as_ref())?;
        let after = side_of_layer(node);
        if before.is_none() && after.is_none() {
            return Ok(());
        }
        if self.same_as_host(path, before.as_ref(), after.as_ref())? {
            return Ok(());
        }
        let origin = self.record.origin(path)?;
        let meanwhile = self.moved(path, &origin, now.as_ref())?;
        if meanwhile && self.same_as_origin(path, &origin, after.as_ref())? {
            return Ok(());
        }
        let before = match (meanwhile, &origin) {
            (true, Origin::There(past)) => self.side_of_past(path, past)?.or(before),
            _ => before,
        };
        let odd = self.odd(path, node)?;
        let change = Change { path: path.clone(), before, after, meanwhile, mode: mode(node), odd };
        self.found.insert(path.clone(), change);
        Ok(())
    }

    /// Adds everything below a base directory that the layer does not contain.
    fn gone_below(&mut self, dir: &RelPath) -> Result<(), DiffError> {
        // Where the base had nothing, every unrecorded entry is the host's.
        let own = self.record.origin(dir)? == Origin::Absent;
        let mut todo = vec![dir.clone()];
        while let Some(dir) = todo.pop() {
            let names = match self.host.list(&dir) {
                Err(error) if is_out_of_reach(&error) => continue,
                names => names.map_err(|error| DiffError::host(&dir, error))?,
            };
            for path in names.iter().filter_map(|name| dir.join(name)) {
                let found = self.host.stat(&path).map_err(|error| DiffError::host(&path, error))?;
                let Some(found) = found else { continue };
                if found.kind == Kind::Dir {
                    todo.push(path.clone());
                }
                let is_own = own && self.record.origin(&path)? == Origin::Unknown;
                if !is_own && !self.entries.contains_key(&path) {
                    self.gone(path, &found)?;
                }
                if self.gone > MAX_GONE {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn gone(&mut self, path: RelPath, found: &HostEntry) -> Result<(), DiffError> {
        let before = self.side_of_host(&path, Some(found))?;
        let origin = self.record.origin(&path)?;
        let meanwhile = self.moved(&path, &origin, Some(found))?;
        self.gone += 1;
        let (path_of, odd) = (path.clone(), Vec::new());
        let change = Change { path: path_of, before, after: None, meanwhile, mode: None, odd };
        self.found.insert(path, change);
        Ok(())
    }

    /// Returns true when the host changed since the layer's change.
    fn moved(
        &self,
        path: &RelPath,
        origin: &Origin,
        now: Option<&HostEntry>,
    ) -> Result<bool, DiffError> {
        match (origin, now) {
            (Origin::Absent | Origin::Perhaps, None) => Ok(false),
            (Origin::There(past), Some(now)) => {
                let same = past.is(now, path, self.host);
                Ok(!same.map_err(|error| DiffError::host(path, error))?)
            }
            _ => Ok(true),
        }
    }

    fn same_as_host(
        &self,
        path: &RelPath,
        before: Option<&Side>,
        after: Option<&Side>,
    ) -> Result<bool, DiffError> {
        match (before, after) {
            (Some(Side::File { .. }), Some(Side::File { .. })) if before == after => {
                let (mut host, _) = match self.host.open_file(path) {
                    Err(error) if is_out_of_reach(&error) => return Ok(false),
                    opened => opened.map_err(|error| DiffError::host(path, error))?,
                };
                let mut layer = self.layer.open(path)?;
                same_bytes(&mut host, &mut layer).map_err(|error| DiffError::host(path, error))
            }
            (Some(Side::Special), Some(Side::Special)) => Ok(false),
            _ => Ok(before == after),
        }
    }

    /// Returns true when the layer's version is the original, so that only the host changed.
    fn same_as_origin(
        &self,
        path: &RelPath,
        origin: &Origin,
        after: Option<&Side>,
    ) -> Result<bool, DiffError> {
        match (origin, after) {
            (Origin::Absent, None) => Ok(true),
            (Origin::There(past), Some(Side::Dir)) => Ok(past.kind == Kind::Dir),
            (Origin::There(past), Some(Side::Symlink { target })) => {
                Ok(past.digest == Some(Digest::of(target.as_encoded_bytes())))
            }
            (Origin::There(past), Some(Side::File { executable, size })) => {
                if past.stamp.size != *size || past.executable != *executable {
                    return Ok(false);
                }
                let digest = Digest::read(self.layer.open(path)?);
                Ok(past.digest == Some(digest.map_err(|error| DiffError::host(path, error))?))
            }
            _ => Ok(false),
        }
    }

    fn side_of_host(
        &self,
        path: &RelPath,
        found: Option<&HostEntry>,
    ) -> Result<Option<Side>, DiffError> {
        let Some(found) = found else { return Ok(None) };
        Ok(Some(match found.kind {
            Kind::Dir => Side::Dir,
            Kind::Special => Side::Special,
            Kind::File => Side::File { size: found.stamp.size, executable: found.is_executable() },
            Kind::Symlink => {
                let target = self.host.read_link(path);
                Side::Symlink { target: target.map_err(|error| DiffError::host(path, error))? }
            }
        }))
    }

    /// Returns the ancestor, if its bytes are known.
    fn side_of_past(&self, path: &RelPath, past: &Past) -> Result<Option<Side>, DiffError> {
        let kept = self.record.ancestor(path)?;
        Ok(match past.kind {
            Kind::File => {
                kept.map(|kept| Side::File { size: kept.len() as u64, executable: past.executable })
            }
            _ => None,
        })
    }

    /// Returns the attributes of an entry that are never applied.
    fn odd(&self, path: &RelPath, node: &Node) -> Result<Vec<Odd>, DiffError> {
        let (Node::Dir { meta, .. }
        | Node::File { meta, .. }
        | Node::Symlink { meta, .. }
        | Node::Special { meta }) = node
        else {
            return Ok(Vec::new());
        };
        let mut odd = odd_meta(*meta, node);
        let xattrs = self.layer.xattrs(path)?;
        if !xattrs.is_empty() {
            odd.push(Odd::Xattrs(xattrs));
        }
        Ok(odd)
    }
}

/// Returns the permission bits of a file or a directory.
fn mode(node: &Node) -> Option<u32> {
    match node {
        Node::Dir { meta, .. } | Node::File { meta, .. } => Some(meta.mode & 0o777),
        Node::Gone | Node::Symlink { .. } | Node::Special { .. } => None,
    }
}

fn odd_meta(meta: Meta, node: &Node) -> Vec<Odd> {
    let mut odd = Vec::new();
    let is_dir = matches!(node, Node::Dir { .. });
    if meta.mode & 0o6000 != 0 && !is_dir {
        odd.push(Odd::SetId);
    }
    if meta.links > 1 && !is_dir {
        odd.push(Odd::HardLinks);
    }
    odd
}

fn side_of_layer(node: &Node) -> Option<Side> {
    match node {
        Node::Gone => None,
        Node::Dir { .. } => Some(Side::Dir),
        Node::File { meta, size } => {
            Some(Side::File { size: *size, executable: meta.mode & 0o100 != 0 })
        }
        Node::Symlink { target, .. } => Some(Side::Symlink { target: target.clone() }),
        Node::Special { .. } => Some(Side::Special),
    }
}

/// Compares two streams without storing them.
fn same_bytes(one: &mut dyn Read, two: &mut dyn Read) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let (here, there) = (fill(one, &mut left)?, fill(two, &mut right)?);
        if left[..here] != right[..there] {
            return Ok(false);
        }
        if here == 0 {
            return Ok(true);
        }
    }
}

fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
