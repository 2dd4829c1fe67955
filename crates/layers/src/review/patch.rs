//! The changes that one patch can carry.

use std::fmt;
use std::path::PathBuf;

use sandbox_core::inspect;
use sandbox_linux::escape::name;

use super::error::ReviewError;
use super::line::Line;
use crate::RelPath;
use crate::diff::{Side, write_patch};

/// Changes for `git apply`. A patch covers one directory. For a session with several, it is the first one with changes.
pub struct Patch<'l, 'r> {
    lines: Vec<&'l Line<'r>>,
    /// Changes that are not in the patch.
    pub left_out: Vec<LeftOut>,
}

/// Change that is not in the patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOut {
    /// All changes of another directory.
    Directory(PathBuf),
    /// A FIFO, a socket or a device.
    Special(RelPath),
    /// File in a `.git` directory, which `git apply` refuses.
    Git(RelPath),
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(dir) => {
                write!(f, "{}; name it to get a patch of it", name(dir))
            }
            Self::Special(path) => write!(f, "{}, a special file", name(path.as_path())),
            Self::Git(path) => {
                write!(f, "{}: git rejects patches for its own directory", name(path.as_path()))
            }
        }
    }
}

impl<'l, 'r> Patch<'l, 'r> {
    /// Selects the changes.
    pub fn of(lines: &'l [Line<'r>]) -> Self {
        let mut patch = Self { lines: Vec::new(), left_out: Vec::new() };
        let Some(first) = lines.first().map(|line| line.root.number) else { return patch };
        let others = lines.iter().filter(|line| line.root.number != first);
        let mut others: Vec<_> =
            others.map(|line| LeftOut::Directory(line.root.host.path().to_path_buf())).collect();
        others.dedup();
        patch.left_out = others;
        for line in lines.iter().filter(|line| line.root.number == first) {
            let at = &line.change.path;
            if line.change.after == Some(Side::Special) {
                patch.left_out.push(LeftOut::Special(at.clone()));
            }
            if inspect::is_git_path(at.as_path()) {
                patch.left_out.push(LeftOut::Git(at.clone()));
            } else {
                patch.lines.push(line);
            }
        }
        patch
    }

    /// Returns the patch file by file.
    pub fn files(&self) -> impl Iterator<Item = Result<Vec<u8>, ReviewError>> {
        self.lines.iter().map(|line| {
            let mut bytes = Vec::new();
            write_patch(&line.root.view(), line.change, &mut bytes)?;
            Ok(bytes)
        })
    }
}
