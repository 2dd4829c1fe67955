//! Changes of the host during a run, found by a short scan.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_linux::tree::{Dir, Kind};
use sandbox_linux::walk::{Budget, Enter, Guide, Verdict, Visited, walk};

use super::base::BaseRecord;
use super::dirs::HEAPS;
use super::error::{SessionError, cannot};
use super::opened::LayerSession;
use super::record::RootKind;
use crate::RelPath;
use crate::diff::{Origin, Origins as _};
use crate::host::HostEntry;

/// Budget of the scan, equal to that of the scan after a run.
const LOOK: Budget = Budget { time: Duration::from_millis(100), entries: 2_000_000 };

/// Result of the scan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shifted {
    /// Changed files on the host, sorted.
    pub paths: Vec<PathBuf>,
    /// True when the scan stopped before the end of the tree.
    pub stopped_early: bool,
}

impl LayerSession {
    /// Returns files of the base that changed since the last run began, with or without an entry in the layer.
    pub fn shifted(&self) -> Result<Shifted, SessionError> {
        let Some(since) = self.record().runs.last().map(|run| run.started) else {
            return Ok(Shifted::default());
        };
        let mut shifted = Shifted::default();
        let roots = self.record().roots.iter().enumerate();
        for (number, root) in roots.filter(|(_, root)| root.kind == RootKind::Dir) {
            let dir = Dir::open(&root.path).map_err(cannot("open", &root.path))?;
            let guide = || Newer { root: &root.path, since, found: Vec::new() };
            let mut guides = [guide(), guide()];
            shifted.stopped_early |= walk(&dir, LOOK, &mut guides).stopped_early;
            let found = guides.into_iter().flat_map(|guide| guide.found);
            let ours = Ours { root: &root.path, record: self.base_record(number)? };
            shifted.paths.extend(found.filter(|path| !ours.has(path)));
        }
        shifted.paths.sort();
        Ok(shifted)
    }
}

/// Files that an apply wrote during the run, which do not count as changes of the host.
struct Ours<'r> {
    root: &'r Path,
    record: BaseRecord,
}

impl Ours<'_> {
    fn has(&self, path: &Path) -> bool {
        let below = path.strip_prefix(self.root).ok().and_then(RelPath::new);
        let Some(Ok(Origin::There(past))) = below.map(|below| self.record.origin(&below)) else {
            return false;
        };
        let now = rustix::fs::lstat(path).map(HostEntry::from);
        now.is_ok_and(|now| now.stamp == past.stamp)
    }
}

struct Newer<'r> {
    root: &'r Path,
    since: (i64, u32),
    found: Vec<PathBuf>,
}

impl Guide for Newer<'_> {
    type Mark = ();

    fn entry(&mut self, _: &Visited<()>, name: &OsStr, kind: Kind) -> Verdict<()> {
        let enter = match kind {
            Kind::Dir if HEAPS.iter().any(|heap| name == *heap) => Enter::Last(()),
            Kind::Dir => Enter::Soon(()),
            _ => Enter::Never,
        };
        Verdict { keep: kind != Kind::Dir, enter }
    }

    fn visit(&mut self, dir: &Dir, place: &Visited<()>, kept: &[(OsString, Kind)]) {
        for (name, _) in kept {
            if dir.stat(name).is_ok_and(|stat| stat.ctime > self.since) {
                self.found.push(place.below(self.root).join(name));
            }
        }
    }
}
