//! Record of the base's files before their first change, which are the ancestors of merges.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::path::{Path, PathBuf};

use sandbox_linux::replace::Durability;
use serde::{Deserialize, Serialize};

use super::dirs::Swaps;
use super::disk;
use super::error::{SessionError, cannot};
use super::text;
use crate::RelPath;
use crate::apply::RecordOrigin;
use crate::change::{LayerError, Listing};
use crate::diff::{Digest, MAX_GONE, Origin, Origins, Past};
use crate::host::{HostEntry, HostTree, Kind, is_absent, is_out_of_reach};

/// Maximum size of texts that are stored for merging.
const KEPT: u64 = 1 << 20;
/// Maximum size of files that are hashed. A larger one is identified by its inode and times only.
const HASHED: u64 = 64 << 20;

/// Record of one root's base.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BaseRecord {
    dir: PathBuf,
    states: BTreeMap<PathBuf, Origin>,
    /// Paths that the layer hid at the end of the last run. Missing in records of earlier versions.
    hidden: Option<Hidden>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    states: BTreeMap<String, Origin>,
    #[serde(default)]
    hidden: Option<BTreeSet<String>>,
}

/// Paths at which a layer hides its base. None of them is below another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hidden(BTreeSet<PathBuf>);

impl Hidden {
    /// Returns the hidden paths of a layer: removed and replaced entries, and opaque directories.
    pub(super) fn of(listing: &Listing) -> Self {
        let entries = listing.entries.iter().filter(|entry| entry.node.hides());
        let paths = entries.map(|entry| &entry.path).chain(&listing.over_nothing);
        let sorted: BTreeSet<&Path> = paths.map(RelPath::as_path).collect();
        let mut hidden = Self::default();
        for path in sorted {
            if !hidden.covers(path) {
                hidden.0.insert(path.to_path_buf());
            }
        }
        hidden
    }

    /// Returns true for a hidden path and everything below one. In path order, descendants directly follow their
    /// ancestor.
    pub(super) fn covers(&self, path: &Path) -> bool {
        let last = self.0.range::<Path, _>((Unbounded, Included(path))).next_back();
        last.is_some_and(|top| path.starts_with(top))
    }
}

impl BaseRecord {
    /// Returns every recorded path.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &Origin)> {
        self.states.iter().map(|(path, state)| (path.as_path(), state))
    }

    /// Removes a path, because layer and base are equal there.
    pub fn forget(&mut self, path: &RelPath) {
        self.states.remove(path.as_path());
    }

    /// Keeps only hidden and `lost` paths. After a restore, the next change of any other path counts.
    pub(super) fn keep_only(&mut self, hidden: &Hidden, lost: &BTreeSet<&Path>) {
        self.states.retain(|path, _| hidden.covers(path) || lost.contains(path.as_path()));
    }

    /// Records the hidden paths of the layer and returns those at the end of the last run. Records of earlier versions
    /// lack them. There, a directory counts as hidden if its content is recorded.
    pub(super) fn hide(&mut self, hidden: Hidden) -> Hidden {
        let before = self.hidden.take().unwrap_or_else(|| {
            let has_content = |dir: &&PathBuf| {
                let next =
                    self.states.range::<Path, _>((Excluded(dir.as_path()), Unbounded)).next();
                next.is_some_and(|(path, _)| path.starts_with(dir))
            };
            Hidden(hidden.0.iter().filter(has_content).cloned().collect())
        });
        self.hidden = Some(hidden);
        before
    }

    /// Removes paths that are no longer hidden after the layer was replaced.
    pub(super) fn keep_hidden(&mut self, now: &Hidden) {
        if let Some(before) = &mut self.hidden {
            *before = Hidden(now.0.iter().filter(|path| before.covers(path)).cloned().collect());
        }
    }

    /// Removes a path and everything below it.
    pub(super) fn forget_below(&mut self, path: &RelPath) {
        self.states.retain(|known, _| !known.starts_with(path.as_path()));
        if let Some(Hidden(paths)) = &mut self.hidden {
            paths.retain(|known| !known.starts_with(path.as_path()));
        }
    }

    /// Records that the session never saw the base's entry at a path, unless the path is already recorded.
    pub(super) fn take_unseen(&mut self, host: &HostTree, path: &RelPath) {
        if matches!(host.stat(path), Ok(Some(_))) {
            self.states.entry(path.as_path().to_path_buf()).or_insert(Origin::Unknown);
        }
    }

    /// Records that the base has no entry at removed paths, unless they are already recorded.
    pub(super) fn take_absent(&mut self, host: &HostTree, paths: &[RelPath]) {
        for path in paths {
            if matches!(host.stat(path), Ok(None)) {
                self.states.entry(path.as_path().to_path_buf()).or_insert(Origin::Absent);
            }
        }
    }

    /// Reads the record of root number `root`. Returns an empty one if there is none.
    pub(super) fn read(dir: &Path, root: usize) -> Result<Self, SessionError> {
        let file = dir.join(format!("{root}.json"));
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (states, hidden) = (BTreeMap::new(), Some(Hidden::default()));
                return Ok(Self { dir: dir.to_path_buf(), states, hidden });
            }
            Err(error) => return Err(cannot("read", &file)(error)),
        };
        let damaged = |source| SessionError::Record { path: file.clone(), source };
        let written: Written = serde_json::from_slice(&text).map_err(damaged)?;
        let states = written.states.into_iter();
        let states = states.filter_map(|(path, state)| Some((text::decode(&path)?, state)));
        let decode = |path: &String| text::decode(path);
        let hidden = written.hidden.map(|paths| Hidden(paths.iter().filter_map(decode).collect()));
        Ok(Self { dir: dir.to_path_buf(), states: states.collect(), hidden })
    }

    /// Writes the record of root number `root`.
    pub(super) fn write(&self, root: usize) -> Result<(), SessionError> {
        let states =
            self.states.iter().map(|(path, state)| (text::encode(path), state.clone())).collect();
        let file = self.dir.join(format!("{root}.json"));
        let encode = |Hidden(paths): &Hidden| paths.iter().map(|path| text::encode(path)).collect();
        let hidden = self.hidden.as_ref().map(encode);
        let bytes = serde_json::to_vec(&Written { states, hidden })
            .map_err(|source| SessionError::Record { path: file.clone(), source })?;
        disk::private_dir(&self.dir)?;
        disk::replace(&file, &bytes, Durability::Content)
    }

    /// Records the current state of a path of the base, unless it is already recorded. The command did not see changes
    /// after `since`, the start of the run, nor anything at an `other` path, whose directory the host replaced since.
    /// `copied` returns true if the layer's entry began as one of the base. Returns true if the base changed.
    pub(super) fn take(
        &mut self,
        host: &HostTree,
        path: &RelPath,
        since: (i64, u32),
        other: bool,
        copied: impl FnOnce() -> Result<bool, LayerError>,
    ) -> Result<bool, SessionError> {
        let failed = |error| cannot("read", &host.path().join(path.as_path()))(error);
        let found = match host.stat(path) {
            Err(error) if is_out_of_reach(&error) => {
                self.states.entry(path.as_path().to_path_buf()).or_insert(Origin::Unknown);
                return Ok(true);
            }
            found => found.map_err(failed)?,
        };
        let doubtful =
            found.is_none() && (other || is_dir_newer(host, path, since).map_err(failed)?);
        let changed = match &found {
            Some(found) => !self.is_ours(path, found) && (other || is_newer(found, since)),
            None => doubtful && copied()?,
        };
        if !self.states.contains_key(path.as_path()) {
            let origin = match found {
                _ if changed => Origin::Unknown,
                None if doubtful => Origin::Perhaps,
                None => Origin::Absent,
                Some(found) => self.keep(host, path, &found)?,
            };
            self.states.insert(path.as_path().to_path_buf(), origin);
        }
        Ok(changed)
    }

    /// Returns true for a file that an apply wrote while the session ran.
    fn is_ours(&self, path: &RelPath, found: &HostEntry) -> bool {
        let known = self.states.get(path.as_path());
        matches!(known, Some(Origin::There(past)) if past.stamp == found.stamp)
    }

    /// Records everything below a directory of the base that the layer hides. Its files are not read, because there may
    /// be a great many and removed files are never merged. The host may have removed or replaced the directory since it
    /// was recorded, and then nothing is below it. New files below a directory that was `hidden` before the run were
    /// never seen in the session.
    pub(super) fn take_below(
        &mut self,
        host: &HostTree,
        dir: &RelPath,
        since: (i64, u32),
        swaps: &Swaps<'_>,
        hidden: &Hidden,
    ) -> Result<Vec<RelPath>, SessionError> {
        let failed =
            |path: &RelPath, error| cannot("read", &host.path().join(path.as_path()))(error);
        let (mut todo, mut changed, mut left) = (vec![dir.clone()], Vec::new(), MAX_GONE);
        while let Some(dir) = todo.pop() {
            let names = match host.list(&dir) {
                Err(error) if is_out_of_reach(&error) => continue,
                names => names.map_err(|error| failed(&dir, error))?,
            };
            let unseen = hidden.covers(dir.as_path());
            for path in names.iter().filter_map(|name| dir.join(name)) {
                let found = host.stat(&path).map_err(|error| failed(&path, error))?;
                let Some(found) = found.filter(|_| left > 0) else { continue };
                left -= 1;
                let other = swaps.is_other(&path, &found);
                if found.kind == Kind::Dir && !other {
                    todo.push(path.clone());
                }
                let newer = (other || is_newer(&found, since)) && !self.is_ours(&path, &found);
                let state = if newer || unseen { Origin::Unknown } else { past(&found, None) };
                self.states.entry(path.as_path().to_path_buf()).or_insert(state);
                changed.extend(newer.then_some(path));
            }
        }
        Ok(changed)
    }

    /// Describes a path with its content. A file that this user cannot read, or that is being removed, is identified by
    /// its inode and times.
    fn keep(
        &self,
        host: &HostTree,
        path: &RelPath,
        found: &HostEntry,
    ) -> Result<Origin, SessionError> {
        if found.kind == Kind::File && host.open_file(path).is_err() {
            return Ok(past(found, None));
        }
        let failed = |error: io::Error| cannot("read", &host.path().join(path.as_path()))(error);
        let bytes = match found.kind {
            Kind::Symlink => Some(host.read_link(path).map_err(failed)?.into_encoded_bytes()),
            Kind::File if found.stamp.size <= KEPT => {
                let mut bytes = Vec::new();
                let (file, _) = host.open_file(path).map_err(failed)?;
                file.take(KEPT + 1).read_to_end(&mut bytes).map_err(failed)?;
                Some(bytes)
            }
            Kind::File if found.stamp.size <= HASHED => {
                let (file, _) = host.open_file(path).map_err(failed)?;
                return Ok(past(found, Some(Digest::read(file).map_err(failed)?)));
            }
            _ => None,
        };
        let Some(bytes) = bytes else { return Ok(past(found, None)) };
        let digest = Digest::of(&bytes);
        if found.kind == Kind::File && !bytes.contains(&0) {
            let file = self.file(digest);
            disk::private_dir(&self.dir.join("bytes"))?;
            if !file.try_exists().unwrap_or(false) {
                // Without the text, changes are still detected but cannot be merged. A full disk must not prevent the
                // record itself.
                let _ = disk::replace(&file, &bytes, Durability::Content);
            }
        }
        Ok(past(found, Some(digest)))
    }

    /// Returns the file that stores a text.
    fn file(&self, digest: Digest) -> PathBuf {
        use std::fmt::Write as _;
        let name = digest.0.iter().fold(String::new(), |mut name, byte| {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
            name
        });
        self.dir.join("bytes").join(name)
    }
}

fn past(found: &HostEntry, digest: Option<Digest>) -> Origin {
    let (kind, stamp, executable) = (found.kind, found.stamp, found.is_executable());
    Origin::There(Past { kind, stamp, executable, digest })
}

/// Returns true for a change after `since`. The times of a directory do not count: they change with its entries, which
/// are checked separately.
fn is_newer(found: &HostEntry, since: (i64, u32)) -> bool {
    found.kind != Kind::Dir && found.stamp.ctime > since
}

/// Returns true when a name may have been removed from its directory since. A missing directory is checked separately.
fn is_dir_newer(host: &HostTree, path: &RelPath, since: (i64, u32)) -> io::Result<bool> {
    match host.parent(path) {
        Ok((dir, _)) => Ok(HostEntry::from(rustix::fs::fstat(&dir)?).stamp.ctime > since),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Origins for BaseRecord {
    fn origin(&self, path: &RelPath) -> Result<Origin, LayerError> {
        Ok(self.states.get(path.as_path()).cloned().unwrap_or(Origin::Unknown))
    }

    fn ancestor(&self, path: &RelPath) -> Result<Option<Vec<u8>>, LayerError> {
        let Some(Origin::There(Past { kind: Kind::File, digest: Some(digest), .. })) =
            self.states.get(path.as_path())
        else {
            return Ok(None);
        };
        let file = self.file(*digest);
        match fs::read(&file) {
            Ok(bytes) => Ok(Some(bytes).filter(|bytes| Digest::of(bytes) == *digest)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(LayerError::Io { path: file, source }),
        }
    }
}

impl RecordOrigin for BaseRecord {
    fn set(
        &mut self,
        path: &RelPath,
        origin: &Origin,
        ancestor: Option<&[u8]>,
    ) -> Result<(), LayerError> {
        if let (Origin::There(Past { digest: Some(digest), .. }), Some(bytes)) = (origin, ancestor)
        {
            let file = self.file(*digest);
            let failed = |source| LayerError::Io { path: file.clone(), source };
            let made = disk::private_dir(&self.dir.join("bytes"));
            made.map_err(|error| failed(io::Error::other(error)))?;
            // Not synced one by one: a reader compares the content with the file name, which is its hash.
            let size = fs::metadata(&file).map_or(u64::MAX, |meta| meta.len());
            if size != bytes.len() as u64 {
                fs::write(&file, bytes).map_err(failed)?;
            }
        }
        self.states.insert(path.as_path().to_path_buf(), origin.clone());
        Ok(())
    }
}
