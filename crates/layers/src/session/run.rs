//! Runs of a session. A run is recorded before its command starts, and its changes are compared with the base when it
//! has ended.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::base::Hidden;
use super::dirs::Swaps;
use super::disk;
use super::error::{SessionError, cannot};
use super::holder::{Freeze, Frozen};
use super::layers;
use super::lock::Lock;
use super::opened::LayerSession;
use super::record::{Root, RootKind, Run};
use crate::RelPath;
use crate::change::{LayerEntry, LayerError, Node};
use crate::diff::{Digest, Origin, Origins as _, Past};
use crate::host::{HostTree, Kind, is_absent};

/// Waits until file times are later than `instant`. The clock for file times advances in steps of some milliseconds.
pub fn wait_until_after(instant: (i64, u32)) {
    while sandbox_linux::clock::wall() <= instant {
        std::thread::sleep(Duration::from_micros(250));
    }
}

/// Arguments of a root's overlay mount. Paths are relative to `data`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlayMount {
    /// The data directory.
    pub data: PathBuf,
    /// Read-only layers, the topmost first.
    pub lower: Vec<PathBuf>,
    /// Writable layer.
    pub upper: PathBuf,
    /// Work directory.
    pub work: PathBuf,
}

/// Running session that stays frozen until this is dropped.
pub struct FrozenSession {
    _frozen: Frozen,
    _lock: Lock,
}

impl LayerSession {
    /// Records the start of a run. The caller holds the lock. Completes an earlier run that was killed, and returns the
    /// paths that both that run and the host changed.
    ///
    /// `started` is an instant before any access to the base. See [`wait_until_after`].
    pub fn begin(
        &mut self,
        lock: &Lock,
        program: &str,
        started: (i64, u32),
    ) -> Result<Vec<PathBuf>, SessionError> {
        let mut started = started;
        let shifted = match self.settle(lock) {
            // The command may repair the layer. The base is then compared with its state at the start of the earlier
            // run.
            Err(SessionError::Layer(LayerError::Moved { .. })) => {
                started = self.give_up_settling(started)?;
                Vec::new()
            }
            settled => settled?,
        };
        let run = Run {
            program: program.to_owned(),
            started,
            pid: sandbox_linux::process::pid(),
            ended: None,
            code: None,
        };
        self.update(|record| record.runs.push(run))?;
        self.list_dirs();
        disk::reserve(&self.reserve());
        Ok(shifted)
    }

    /// Ends the run that [`LayerSession::begin`] recorded, and records the base of its changes. Returns the host's
    /// paths that changed during the run, among those that the run changed too.
    pub fn finish(&mut self, _lock: &Lock, code: Option<u8>) -> Result<Vec<PathBuf>, SessionError> {
        let Some(since) = self.record().runs.last().map(|run| run.started) else {
            return Ok(Vec::new());
        };
        disk::release(&self.reserve());
        let cut_off = self.stop_serving()?;
        self.set_cut_off(cut_off);
        self.take_in_moved()?;
        let mut shifted = Vec::new();
        for number in 0..self.record().roots.len() {
            shifted.extend(self.record_base(number, since)?);
            layers::remove(&self.work(number))?;
        }
        self.update(|record| {
            if let Some(run) = record.runs.last_mut() {
                (run.ended, run.code) = (Some(sandbox_linux::clock::now()), code);
            }
            record.holder = None;
        })?;
        Ok(shifted)
    }

    /// Completes a run that was killed.
    pub fn settle(&mut self, lock: &Lock) -> Result<Vec<PathBuf>, SessionError> {
        self.recover_all(lock)?;
        match self.record().runs.last() {
            Some(run) if run.ended.is_none() => self.finish(lock, None),
            // Runs of earlier versions ended without this step.
            _ => self.take_in_moved().map(|()| Vec::new()),
        }
    }

    /// Ends the last run although its base is not recorded completely. Returns the start time for the next run, which
    /// is not later than the start of this one.
    fn give_up_settling(&mut self, started: (i64, u32)) -> Result<(i64, u32), SessionError> {
        let mut earliest = started;
        self.update(|record| {
            if let Some(run) = record.runs.last_mut().filter(|run| run.ended.is_none()) {
                earliest = earliest.min(run.started);
                run.ended = Some(sandbox_linux::clock::now());
            }
        })?;
        Ok(earliest)
    }

    /// Freezes all processes of the session and records the base of its changes so far. The caller may then apply them.
    /// The session sees these paths through its own layer, so it does not see the change on the host below.
    pub fn freeze(&self, freeze: Freeze<'_>) -> Result<FrozenSession, SessionError> {
        let lock = Lock::try_take(&self.dir().join("apply.lock"))?.ok_or_else(|| self.busy())?;
        let frozen = self.freeze_processes(freeze)?;
        self.check_moved()?;
        let since = self.record().runs.last().map(|run| run.started).unwrap_or_default();
        for (number, root) in self.record().roots.iter().enumerate() {
            if root.kind == RootKind::Dir {
                self.record_base(number, since)?;
            }
        }
        Ok(FrozenSession { _frozen: frozen, _lock: lock })
    }

    /// Adds roots to the session.
    pub fn add_roots(&mut self, roots: &[(PathBuf, RootKind)]) -> Result<(), SessionError> {
        if roots.iter().all(|(path, _)| self.root_at(path).is_some()) {
            return Ok(());
        }
        let _guard = self.layers().guard()?;
        let mut new = Vec::new();
        for (path, kind) in roots {
            if self.root_at(path).is_none() {
                let stack = vec![self.layers().create(path, *kind, self.record().engine)?];
                new.push(Root { path: path.clone(), kind: *kind, stack });
            }
        }
        self.update(|record| record.roots.extend(new))
    }

    /// Returns the number of the root at a path on the host.
    pub fn root_at(&self, path: &Path) -> Option<usize> {
        self.record().roots.iter().position(|root| root.path == path)
    }

    fn reserve(&self) -> PathBuf {
        self.dir().join("reserve")
    }

    pub(super) fn work(&self, root: usize) -> PathBuf {
        self.dir().join("work").join(root.to_string())
    }

    /// Prepares root number `root` for an overlay mount.
    pub fn overlay_mount(&self, root: usize) -> Result<OverlayMount, SessionError> {
        let work = self.work(root);
        // Files that the kernel left in it after a kill are useless.
        layers::remove(&work)?;
        disk::private_dir(&work)?;
        let data = self.layers().data().to_path_buf();
        let below = |path: PathBuf| path.strip_prefix(&data).map(Path::to_path_buf).unwrap_or(path);
        let mut uppers = self.uppers(self.root(root)?);
        let upper = uppers.pop().unwrap_or_default();
        let lower = uppers.into_iter().rev().map(below).collect();
        Ok(OverlayMount { lower, upper: below(upper), work: below(work), data: data.clone() })
    }

    /// Returns the session's copy of root number `root`, a single file. Creates it from the host's file unless an
    /// earlier run changed it.
    pub fn file_copy(&self, root: usize) -> Result<PathBuf, SessionError> {
        let place = self.root(root)?;
        let name = RelPath::new(place.path.file_name().unwrap_or_default())
            .ok_or_else(|| SessionError::Root { name: self.record().name.clone(), root })?;
        let upper = self.uppers(place).pop().unwrap_or_default().join(name.as_path());
        if upper.try_exists().unwrap_or(false) {
            return Ok(upper);
        }
        // A file in a snapshot's layer takes precedence over the host's.
        let below = self.uppers(place).into_iter().rev().skip(1);
        let source = below.map(|layer| layer.join(name.as_path())).find(|path| path.is_file());
        if source.is_none() {
            let host = HostTree::open(place.base()).map_err(cannot("open", place.base()))?;
            let mut record = self.base_record(root)?;
            record.forget(&name);
            record.take(&host, &name, (i64::MAX, 0), false, || Ok(false))?;
            record.write(root)?;
        }
        let source = source.unwrap_or_else(|| place.path.clone());
        fs::copy(&source, &upper).map_err(cannot("copy", &source))?;
        Ok(upper)
    }

    /// Records the base of every changed path of a root that is not recorded yet.
    fn record_base(&self, number: usize, since: (i64, u32)) -> Result<Vec<PathBuf>, SessionError> {
        let base = self.base_dir(number)?;
        if self.root(number)?.kind == RootKind::File {
            return self.compare_file(number, since);
        }
        let host = match HostTree::open(base) {
            Err(error) if is_absent(&error) => {
                return Ok(vec![base.to_path_buf()]);
            }
            opened => opened.map_err(cannot("open", base))?,
        };
        let layer = self.layer(number)?;
        let listing = layer.listing()?;
        let entries = &listing.entries;
        let known = self.base_record(number)?;
        let mut record = known.clone();
        let hidden = Hidden::of(&listing);
        record.keep_only(&hidden, &lost(&host, entries));
        let hidden_before = record.hide(hidden);
        let moved = moved_from(&host, entries).map_err(cannot("read", base))?;
        let mut swaps = Swaps::new(&host, self.dirs(number), since);
        let mut shifted = Vec::new();
        for entry in entries {
            let copied = || Ok(stayed(&entry.node, &moved) && layer.is_copy(&entry.path)?);
            let hides = entry.node.hides();
            let above = entry.path.as_path().parent().unwrap_or(Path::new(""));
            if hidden_before.covers(above) {
                record.take_unseen(&host, &entry.path);
            }
            let other =
                swaps.holds(&entry.path)? || (hides && swaps.is_new(entry.path.as_path())?);
            let changed = record.take(&host, &entry.path, since, other, copied)?;
            // Files in a replaced directory are reported one by one.
            if changed && (hides || !other) {
                shifted.push(entry.path.clone());
            }
            let is_dir = |origin| matches!(origin, Origin::There(Past { kind: Kind::Dir, .. }));
            if hides && is_dir(record.origin(&entry.path)?) {
                let below = record.take_below(&host, &entry.path, since, &swaps, &hidden_before)?;
                shifted.extend(below);
            }
        }
        record.take_absent(&host, &listing.over_nothing);
        if record != known {
            record.write(number)?;
        }
        Ok(shifted.into_iter().map(|path| base.join(path.as_path())).collect())
    }

    /// Compares a root that is a single file, and drops its copy if it is unchanged.
    fn compare_file(&self, number: usize, since: (i64, u32)) -> Result<Vec<PathBuf>, SessionError> {
        let place = self.root(number)?;
        let Some(name) = RelPath::new(place.path.file_name().unwrap_or_default()) else {
            return Ok(Vec::new());
        };
        let copy = self.uppers(place).pop().unwrap_or_default().join(name.as_path());
        let Ok(file) = fs::File::open(&copy) else { return Ok(Vec::new()) };
        let digest = Digest::read(file).map_err(cannot("read", &copy))?;
        let record = self.base_record(number)?;
        let origin = record.origin(&name)?;
        if matches!(origin, Origin::There(Past { digest: Some(then), .. }) if then == digest)
            && place.stack.len() == 1
        {
            fs::remove_file(&copy).map_err(cannot("remove", &copy))?;
            return Ok(Vec::new());
        }
        let host = HostTree::open(place.base()).map_err(cannot("open", place.base()))?;
        let now = host.stat(&name).map_err(cannot("read", &place.path))?;
        let shifted = now.is_none_or(|now| now.stamp.ctime > since);
        Ok(if shifted { vec![place.path.clone()] } else { Vec::new() })
    }
}

/// Returns directories that only contain changes and that the host no longer has. Where the host has a directory, its
/// record says nothing about entries below it and is written again in every run.
fn lost<'e>(host: &HostTree, entries: &'e [LayerEntry]) -> BTreeSet<&'e Path> {
    let is_dir =
        |path: &RelPath| matches!(host.stat(path), Ok(Some(found)) if found.kind == Kind::Dir);
    let through = entries.iter().filter(|entry| !entry.node.hides());
    through.map(|entry| &entry.path).filter(|path| !is_dir(path)).map(RelPath::as_path).collect()
}

/// Length and mtime of a file, which a move keeps.
type Likeness = (u64, (i64, u32));

/// Returns the host files that the layer removed, which are possible sources of moved files.
fn moved_from(host: &HostTree, entries: &[LayerEntry]) -> io::Result<HashSet<Likeness>> {
    let mut moved = HashSet::new();
    for entry in entries.iter().filter(|entry| entry.node == Node::Gone) {
        let found = host.stat(&entry.path)?;
        moved.extend(found.map(|found| (found.stamp.size, found.stamp.mtime)));
    }
    Ok(moved)
}

/// Returns true when an entry was certainly not moved from another path.
fn stayed(node: &Node, moved: &HashSet<Likeness>) -> bool {
    match node {
        Node::Dir { opaque, .. } => !opaque,
        Node::File { meta, size } => !moved.contains(&(*size, meta.mtime)),
        _ => true,
    }
}
