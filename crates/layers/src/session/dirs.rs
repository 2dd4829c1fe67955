//! Inode numbers of a base's directories at the start of a run.
//!
//! A file that the host changes during a run has a newer ctime. A directory that the host moves over another one (`mv d
//! d.old; mv d2 d`) brings files with old times. Only the inode of the directory distinguishes them from those that the
//! session saw.
//!
//! A large base is listed only in part. A directory that is not listed and that changed on the host during the run
//! counts as replaced. Its files are in conflict and never overwritten.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::fstat;
use sandbox_linux::tree::{Dir, Kind as Entry};
use sandbox_linux::walk::{Budget, Enter, Extent, Guide, Verdict, Visited, walk};
use serde::{Deserialize, Serialize};

use super::error::{SessionError, cannot};
use super::text;
use crate::RelPath;
use crate::host::{HostEntry, HostTree, Kind, Stamp};

/// Budget for listing a base. Beyond it, only directories with recorded changes are noted.
const LIST: Budget = Budget { time: Duration::from_millis(30), entries: 500_000 };

/// Directories of generated and installed files, which are listed last.
pub(super) const HEAPS: [&str; 4] = ["node_modules", "target", ".venv", "venv"];

/// Directories of one base.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Dirs {
    /// Inode of the base itself.
    root: u64,
    /// Subdirectories with their inodes, by directory.
    listed: BTreeMap<String, BTreeMap<String, u64>>,
    /// Inodes of unlisted directories that hold changes of earlier runs.
    #[serde(default)]
    noted: BTreeMap<String, u64>,
}

impl Dirs {
    /// Notes the parents of a path that are not listed.
    pub(super) fn note(&mut self, host: &HostTree, path: &Path) {
        for dir in path.ancestors().skip(1).filter_map(RelPath::new) {
            let name = text::encode(dir.as_path());
            let parent = text::encode(dir.as_path().parent().unwrap_or(Path::new("")));
            if self.noted.contains_key(&name) || self.listed.contains_key(&parent) {
                return;
            }
            if let Ok(Some(found)) = host.stat(&dir) {
                self.noted.insert(name, found.stamp.ino);
            }
        }
    }
}

/// Lists the directories of a base.
pub(super) fn list(root: &Path) -> Option<(Dirs, Extent)> {
    let dir = Dir::open(root).ok()?;
    let now = HostTree::open(root).ok().and_then(|tree| stamp(&tree))?;
    let mut list = [Lister { dirs: Dirs { root: now.ino, ..Dirs::default() } }];
    let extent = walk(&dir, LIST, &mut list);
    let [Lister { dirs }] = list;
    Some((dirs, extent))
}

fn stamp(tree: &HostTree) -> Option<Stamp> {
    Some(HostEntry::from(fstat(tree.root()).ok()?).stamp)
}

struct Lister {
    dirs: Dirs,
}

impl Guide for Lister {
    type Mark = ();

    fn entry(&mut self, _: &Visited<()>, name: &OsStr, kind: Entry) -> Verdict<()> {
        let enter = match kind {
            Entry::Dir if HEAPS.iter().any(|heap| name == *heap) => Enter::Last(()),
            Entry::Dir => Enter::Soon(()),
            _ => Enter::Never,
        };
        Verdict { keep: kind == Entry::Dir, enter }
    }

    fn visit(&mut self, dir: &Dir, place: &Visited<()>, kept: &[(OsString, Entry)]) {
        let inodes = kept.iter().filter_map(|(name, _)| {
            Some((text::encode(Path::new(name)), dir.stat(name).ok()?.ino))
        });
        self.dirs.listed.insert(text::encode(&place.path), inodes.collect());
    }
}

/// Detector of directories that were replaced since the run began.
pub(super) struct Swaps<'h> {
    host: &'h HostTree,
    dirs: Option<Dirs>,
    since: (i64, u32),
    /// True for replaced directories and everything below them.
    known: HashMap<PathBuf, bool>,
}

impl<'h> Swaps<'h> {
    /// Prepares the comparison of a base with its list.
    pub(super) fn new(host: &'h HostTree, dirs: Option<Dirs>, since: (i64, u32)) -> Self {
        let root = dirs.as_ref().zip(stamp(host));
        let root = root.is_some_and(|(dirs, now)| dirs.root != now.ino && now.ctime > since);
        Self { host, dirs, since, known: HashMap::from([(PathBuf::new(), root)]) }
    }

    /// Returns true for a path in a replaced directory.
    pub(super) fn holds(&mut self, path: &RelPath) -> Result<bool, SessionError> {
        let mut above = Vec::new();
        let mut other = false;
        for dir in path.as_path().ancestors().skip(1) {
            if let Some(known) = self.known.get(dir) {
                other = *known;
                break;
            }
            above.push(dir);
        }
        for dir in above.into_iter().rev() {
            other = other || self.is_new(dir)?;
            self.known.insert(dir.to_path_buf(), other);
        }
        Ok(other)
    }

    /// Returns true when the host's directory at a path was replaced since the run began.
    pub(super) fn is_new(&self, dir: &Path) -> Result<bool, SessionError> {
        let Some(path) = RelPath::new(dir) else { return Ok(false) };
        let found = self.host.stat(&path).map_err(cannot("read", &self.host.path().join(dir)))?;
        Ok(found.is_some_and(|found| self.is_other(&path, &found)))
    }

    /// Returns true when an existing entry is not the recorded one.
    pub(super) fn is_other(&self, path: &RelPath, found: &HostEntry) -> bool {
        let path = path.as_path();
        let parent = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().unwrap_or_default();
        // A rename changes the ctime of the directory (rename(2)). So do changes inside it, so the ctime alone proves
        // little.
        if found.kind != Kind::Dir || found.stamp.ctime <= self.since {
            return false;
        }
        let Some(dirs) = &self.dirs else { return true };
        let listed = dirs.listed.get(&text::encode(parent));
        let then = match listed {
            Some(listed) => listed.get(&text::encode(Path::new(name))),
            None => dirs.noted.get(&text::encode(path)),
        };
        then != Some(&found.stamp.ino)
    }
}
