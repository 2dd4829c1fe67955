//! What changed on the host while a command ran over it, as far as a short look can tell.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_linux::tree::{Dir, Kind};
use sandbox_linux::walk::{Budget, Enter, Guide, Place, Verdict, walk};

use super::error::{SessionError, cannot};
use super::record::RootKind;
use super::store::Session;

/// What the look may cost: as much as the guard's.
const LOOK: Budget = Budget { time: Duration::from_millis(100), entries: 2_000_000 };

/// Heaps of files that nobody edits by hand come last.
const HEAPS: [&str; 4] = ["node_modules", "target", ".venv", "venv"];

/// Paths of the host that changed, and whether there was more than could be looked at.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shifted {
    /// Files, sorted.
    pub paths: Vec<PathBuf>,
    /// The look ended before the tree did.
    pub stopped_early: bool,
}

impl Session {
    /// Files of the base that changed since the last run began, whether the layer has them or not.
    pub fn shifted(&self) -> Result<Shifted, SessionError> {
        let Some(since) = self.record().runs.last().map(|run| run.started) else {
            return Ok(Shifted::default());
        };
        let mut shifted = Shifted::default();
        for root in self.record().roots.iter().filter(|root| root.kind == RootKind::Dir) {
            let dir = Dir::open(&root.path).map_err(cannot("open", &root.path))?;
            let guide = || Newer { root: &root.path, since, found: Vec::new() };
            let mut guides = [guide(), guide()];
            shifted.stopped_early |= walk(&dir, LOOK, &mut guides).stopped_early;
            shifted.paths.extend(guides.into_iter().flat_map(|guide| guide.found));
        }
        shifted.paths.sort();
        Ok(shifted)
    }
}

struct Newer<'r> {
    root: &'r Path,
    since: (i64, u32),
    found: Vec<PathBuf>,
}

impl Guide for Newer<'_> {
    type Mark = ();

    fn entry(&mut self, _: &Place<()>, name: &OsStr, kind: Kind) -> Verdict<()> {
        let enter = match kind {
            Kind::Dir if HEAPS.iter().any(|heap| name == *heap) => Enter::Last(()),
            Kind::Dir => Enter::Soon(()),
            _ => Enter::Never,
        };
        Verdict { keep: kind != Kind::Dir, enter }
    }

    fn look(&mut self, dir: &Dir, place: &Place<()>, kept: &[(OsString, Kind)]) {
        for (name, _) in kept {
            if dir.stat(name).is_ok_and(|stat| stat.ctime > self.since) {
                self.found.push(place.below(self.root).join(name));
            }
        }
    }
}
