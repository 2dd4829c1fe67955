//! The directories of a base when a run began, by inode.
//!
//! A file that the host changes during a run is seen by its ctime. A directory that the host puts
//! in another one's place (`mv d d.old; mv d2 d`) brings files with old times along: only the
//! inode of the directory tells them from those that the session saw.
//!
//! A large base is listed only in part. A directory that is not listed, and that changed on the host
//! during the run, counts as another one: its files are in conflict, and never overwritten.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::fstat;
use sandbox_linux::tree::{Dir, Kind as Entry};
use sandbox_linux::walk::{Budget, Enter, Extent, Guide, Place, Verdict, walk};
use serde::{Deserialize, Serialize};

use super::error::{SessionError, cannot};
use super::text;
use crate::RelPath;
use crate::host::{HostEntry, HostTree, Kind, Stamp};

/// The cost of listing a base. Of the directories beyond it, only those with changes on record are noted.
const LIST: Budget = Budget { time: Duration::from_millis(30), entries: 500_000 };

/// Directories of generated and installed files come last.
pub(super) const HEAPS: [&str; 4] = ["node_modules", "target", ".venv", "venv"];

/// The directories of one base.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Dirs {
    /// The inode of the base itself.
    root: u64,
    /// Of every directory that has some: the directories in it, with their inodes.
    listed: BTreeMap<String, BTreeMap<String, u64>>,
    /// The inodes of further directories: those that hold changes of earlier runs.
    #[serde(default)]
    noted: BTreeMap<String, u64>,
}

impl Dirs {
    /// Notes the directories above a path that are not listed.
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

    fn entry(&mut self, _: &Place<()>, name: &OsStr, kind: Entry) -> Verdict<()> {
        let enter = match kind {
            Entry::Dir if HEAPS.iter().any(|heap| name == *heap) => Enter::Last(()),
            Entry::Dir => Enter::Soon(()),
            _ => Enter::Never,
        };
        Verdict { keep: kind == Entry::Dir, enter }
    }

    fn look(&mut self, dir: &Dir, place: &Place<()>, kept: &[(OsString, Entry)]) {
        let inodes = kept.iter().filter_map(|(name, _)| {
            Some((text::encode(Path::new(name)), dir.stat(name).ok()?.ino))
        });
        self.dirs.listed.insert(text::encode(&place.path), inodes.collect());
    }
}

/// Tells the directories of a base that were not there when the run began.
pub(super) struct Swaps<'h> {
    host: &'h HostTree,
    dirs: Option<Dirs>,
    since: (i64, u32),
    /// True for directories that were not there, and for all below them.
    known: HashMap<PathBuf, bool>,
}

impl<'h> Swaps<'h> {
    /// Compares a base with what it was.
    pub(super) fn new(host: &'h HostTree, dirs: Option<Dirs>, since: (i64, u32)) -> Self {
        let root = dirs.as_ref().zip(stamp(host));
        let root = root.is_some_and(|(dirs, now)| dirs.root != now.ino && now.ctime > since);
        Self { host, dirs, since, known: HashMap::from([(PathBuf::new(), root)]) }
    }

    /// Returns true for a path in a directory that was not there.
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

    /// Returns true when the host's directory at a path is not the one that the run began with.
    pub(super) fn is_new(&self, dir: &Path) -> Result<bool, SessionError> {
        let Some(path) = RelPath::new(dir) else { return Ok(false) };
        let found = self.host.stat(&path).map_err(cannot("read", &self.host.path().join(dir)))?;
        Ok(found.is_some_and(|found| self.is_other(&path, &found)))
    }

    /// Returns true when an existing entry is another one than was recorded.
    pub(super) fn is_other(&self, path: &RelPath, found: &HostEntry) -> bool {
        let path = path.as_path();
        let parent = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().unwrap_or_default();
        // A rename changes the ctime of the directory, see rename(2). So does work in it: the
        // ctime alone says little.
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
