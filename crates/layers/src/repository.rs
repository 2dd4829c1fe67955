//! Host files as a source for the git crate.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sandbox_git::files::{Files, ListFiles};
use sandbox_git::layout;
use sandbox_linux::tree;

use crate::RelPath;
use crate::host::{HostTree, Kind, is_absent};

impl Files for HostTree {
    type Error = io::Error;

    fn kind(&self, path: &Path) -> io::Result<Option<tree::Kind>> {
        let Some(path) = RelPath::new(path) else { return Ok(Some(tree::Kind::Dir)) };
        Ok(self.stat(&path)?.map(|found| found.kind.into()))
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(path) = RelPath::new(path) else { return Ok(None) };
        match self.stat(&path)? {
            Some(found) if found.kind == Kind::File && found.stamp.size <= limit => {}
            _ => return Ok(None),
        }
        let mut text = Vec::new();
        self.open_file(&path)?.0.take(limit).read_to_end(&mut text)?;
        Ok(Some(text))
    }
}

impl ListFiles for HostTree {
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let Some(path) = RelPath::new(path) else { return Ok(Vec::new()) };
        match HostTree::list(self, &path) {
            Err(error) if is_absent(&error) => Ok(Vec::new()),
            names => names,
        }
    }
}

impl From<Kind> for tree::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::File => Self::File,
            Kind::Dir => Self::Dir,
            Kind::Symlink => Self::Link,
            Kind::Special => Self::Special,
        }
    }
}

/// Returns the git directory on the host that contains a path.
pub(crate) fn git_dir_of(host: &HostTree, path: &RelPath) -> Option<PathBuf> {
    layout::git_dir_of(path.as_path(), |path| host.kind(path).ok().flatten())
}
