//! Journal of an apply: its steps and everything they replace, on disk before the first write.
//!
//! ```text
//! applied/0001/steps.json   the steps, in order
//! applied/0001/saved/3      the bytes that step 3 replaces or removes
//! applied/0001/made/3       the bytes that step 3 writes, where they are not in the layer
//! applied/0001/theirs/3     the layer's version of these bytes
//! applied/0001/old/3        the ancestor that the session had before
//! applied/0001/status       applying, applied, undoing, undone
//! applied/0001/progress     the numbers of the steps that are done
//! applied/0001/undone       marks the restored base; the number of paths that the undo left out
//! ```
//! A directory whose name is not a number was never complete, and nothing on the host was changed for it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sandbox_linux::replace::{Durability, Replace};
use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::step::{Goal, Source, Step};
use super::{ApplyError, Target};
use crate::RelPath;
use crate::diff::Digest;
use crate::host::Kind;

/// Marker file: the record of the base is in its state before the apply.
const BASE_IS_BACK: &str = "undone";

/// Progress of an apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The apply is running or was interrupted.
    Applying,
    /// The apply is done.
    Applied,
    /// The undo is running or was interrupted.
    Undoing,
    /// The apply was reverted.
    Undone,
}

/// Journal of one apply.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    /// Number.
    pub number: u32,
    /// Steps.
    pub steps: Vec<Step>,
    /// Progress.
    pub status: Status,
    mark: u64,
    /// Number of changes for the user, because a repository has many steps.
    changes: Option<usize>,
    /// Steps of each path, in order.
    by_path: BTreeMap<(usize, RelPath), Vec<usize>>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    /// Random part of the names of prepared files.
    mark: u64,
    steps: Vec<Step>,
    /// Missing in journals of 0.1.0.
    #[serde(default)]
    changes: Option<usize>,
}

impl Journal {
    /// Returns all journals of a session, oldest first. Removes incomplete ones.
    pub fn list(applied: &Path) -> Result<Vec<Self>, ApplyError> {
        let entries = match fs::read_dir(applied) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| failed(applied, error))?,
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| failed(applied, error))?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        numbers.into_iter().map(|number| Self::open(applied, number)).collect()
    }

    /// Returns true when the record of the base may still count an undone apply as applied. Release 0.1.0 wrote the
    /// status before the record, so a kill in between left them inconsistent.
    pub(crate) fn any_without_base(applied: &Path) -> bool {
        let entries = fs::read_dir(applied).into_iter().flatten().flatten();
        let mut dirs = entries.map(|entry| entry.path());
        let undone = |dir: &Path| {
            let status = fs::read(dir.join("status")).ok();
            let status = status.and_then(|text| serde_json::from_slice::<Status>(&text).ok());
            status == Some(Status::Undone)
        };
        dirs.any(|dir| undone(&dir) && !dir.join(BASE_IS_BACK).try_exists().unwrap_or(true))
    }

    /// Returns the interrupted apply or undo, if there is one. It is the latest journal that is not undone: every apply
    /// completes an interrupted one first, so only undone journals can follow.
    pub fn interrupted(applied: &Path) -> Result<Option<Self>, ApplyError> {
        let latest =
            Self::list(applied)?.into_iter().rev().find(|journal| journal.status != Status::Undone);
        Ok(latest.filter(|journal| matches!(journal.status, Status::Applying | Status::Undoing)))
    }

    fn open(applied: &Path, number: u32) -> Result<Self, ApplyError> {
        let dir = applied.join(format!("{number:04}"));
        let read = |name: &str| {
            let path = dir.join(name);
            fs::read(&path).map_err(|error| failed(&path, error))
        };
        let damaged = |source| ApplyError::Damaged { path: dir.clone(), source };
        let Written { mark, steps, changes } =
            serde_json::from_slice(&read("steps.json")?).map_err(damaged)?;
        let status = serde_json::from_slice(&read("status")?).map_err(damaged)?;
        let by_path = by_path(&steps);
        Ok(Self { dir, number, steps, status, mark, changes, by_path })
    }

    /// Writes the steps and saves everything they will replace. Changes nothing on the host. `changes` is the number
    /// for the user, if it is not one for each path.
    pub fn begin(
        applied: &Path,
        plan: &Plan,
        changes: Option<usize>,
        targets: &[Target<'_>],
    ) -> Result<Self, ApplyError> {
        let number = Self::list(applied)?.last().map_or(1, |last| last.number + 1);
        let dir = applied.join(format!(".{number:04}"));
        remove_leftovers(applied)?;
        for sub in ["", "saved", "made", "theirs", "old"] {
            let path = dir.join(sub);
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|error| failed(&path, error))?;
        }
        let mark = RandomState::new().build_hasher().finish();
        let steps = plan.steps.clone();
        let by_path = by_path(&steps);
        let journal = Self { dir, number, steps, status: Status::Applying, mark, changes, by_path };
        for (at, step) in journal.steps.iter().enumerate() {
            journal.save(at, step, plan, targets)?;
        }
        journal.seal(applied)
    }

    /// Saves everything that a step needs in both directions.
    fn save(
        &self,
        at: usize,
        step: &Step,
        plan: &Plan,
        targets: &[Target<'_>],
    ) -> Result<(), ApplyError> {
        let target = find(targets, step.root);
        if let Some(was) = step.before.as_ref().filter(|was| was.kind == Kind::File) {
            let (mut from, _) = target
                .host
                .open_file(&step.path)
                .map_err(|error| ApplyError::at(&step.path, error))?;
            let path = self.file("saved", at);
            let mut to = create(&path)?;
            io::copy(&mut from, &mut to).map_err(|error| failed(&path, error))?;
            let saved = File::open(&path).and_then(Digest::read);
            if was.digest != Some(saved.map_err(|error| failed(&path, error))?) {
                return Err(ApplyError::Raced { path: step.path.as_path().to_path_buf() });
            }
        }
        if let Some(made) = plan.made.get(&(step.root, step.path.clone()))
            && matches!(step.after, Some(Goal::File { source: Source::Journal, .. }))
        {
            self.write("made", at, &made.bytes)?;
            self.write("theirs", at, &made.ancestor)?;
        }
        if let Some(from) = plan.copies.get(&(step.root, step.path.clone())) {
            let path = self.file("made", at);
            let copied = File::open(from).and_then(|mut from| {
                let mut to =
                    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
                io::copy(&mut from, &mut to)
            });
            copied.map_err(|error| failed(&path, error))?;
        }
        match target.record.ancestor(&step.path)? {
            Some(old) => self.write("old", at, &old),
            None => Ok(()),
        }
    }

    /// Renames the journal to its number after syncing it completely.
    fn seal(mut self, applied: &Path) -> Result<Self, ApplyError> {
        let (mark, changes) = (self.mark, self.changes);
        let written = Written { mark, steps: std::mem::take(&mut self.steps), changes };
        let text = serde_json::to_vec(&written)
            .map_err(|source| ApplyError::Damaged { path: self.dir.clone(), source })?;
        let path = self.dir.join("steps.json");
        create(&path)?.write_all(&text).map_err(|error| failed(&path, error))?;
        self.steps = written.steps;
        self.set(Status::Applying)?;
        let dir = open_dir(applied)?;
        rustix::fs::syncfs(&dir).map_err(|error| failed(applied, error.into()))?;
        let sealed = applied.join(format!("{:04}", self.number));
        fs::rename(&self.dir, &sealed).map_err(|error| failed(&sealed, error))?;
        dir.sync_all().map_err(|error| failed(applied, error))?;
        self.dir = sealed;
        Ok(self)
    }

    /// Writes the status durably.
    pub fn set(&mut self, status: Status) -> Result<(), ApplyError> {
        let path = self.dir.join("status");
        let text = serde_json::to_vec(&status)
            .map_err(|source| ApplyError::Damaged { path: self.dir.clone(), source })?;
        let written = Replace::private(Durability::Name).write(&path, &text);
        written.map_err(|error| failed(&path, error))?;
        self.status = status;
        Ok(())
    }

    /// Records that the base is in its state before the apply, and how many paths the undo left out.
    pub(crate) fn base_is_back(&self, left: usize) -> Result<(), ApplyError> {
        let path = self.dir.join(BASE_IS_BACK);
        fs::write(&path, left.to_string()).map_err(|error| failed(&path, error))
    }

    /// Returns true after [`Self::base_is_back`].
    pub(crate) fn is_base_back(&self) -> bool {
        self.dir.join(BASE_IS_BACK).try_exists().unwrap_or(false)
    }

    /// Returns the number of changes, and how many of them the undo reverted.
    pub fn counts(&self) -> (usize, usize) {
        let changes = self.changes.unwrap_or(self.by_path.len());
        let left = fs::read_to_string(self.dir.join(BASE_IS_BACK)).ok();
        let left = left.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        (changes, changes.saturating_sub(left))
    }

    /// Returns the start of the apply and the last change of its status.
    pub fn times(&self) -> Result<(SystemTime, SystemTime), ApplyError> {
        let time = |name: &str| {
            let path = self.dir.join(name);
            let time = fs::metadata(&path).and_then(|about| about.modified());
            time.map_err(|error| failed(&path, error))
        };
        Ok((time("steps.json")?, time("status")?))
    }

    /// Marks a step as done, for human readers. The program recognises states by content.
    pub(crate) fn mark(&self, at: usize) -> Result<(), ApplyError> {
        let path = self.dir.join("progress");
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let marked = file.and_then(|mut file| writeln!(file, "{at}"));
        marked.map_err(|error| failed(&path, error))
    }

    /// Deletes the saved bytes of a reverted apply.
    pub(crate) fn forget(&self) {
        for sub in ["saved", "made", "theirs", "old"] {
            // A failure only wastes space.
            let _ = fs::remove_dir_all(self.dir.join(sub));
        }
    }

    /// Returns all steps of the path of a step, in order.
    pub(crate) fn of_path(&self, step: &Step) -> impl Iterator<Item = (usize, &Step)> {
        let found = self.by_path.get(&(step.root, step.path.clone()));
        found.into_iter().flatten().map(|at| (*at, &self.steps[*at]))
    }

    /// Returns the first step of every path, sorted by path.
    pub(crate) fn first_steps(&self) -> impl Iterator<Item = ((usize, &RelPath), &Step)> {
        self.by_path
            .iter()
            .filter_map(|((root, path), steps)| Some(((*root, path), &self.steps[*steps.first()?])))
    }

    /// Returns the temporary name for a step, beside its path.
    pub(crate) fn temp(&self, at: usize, suffix: &str) -> String {
        format!("{}{at}{suffix}", self.temp_prefix())
    }

    fn temp_prefix(&self) -> String {
        format!(".agent-sandbox-{:016x}-", self.mark)
    }

    /// Returns true for a temporary name of this journal, which is not part of any change.
    pub(crate) fn is_temp(&self, path: &RelPath) -> bool {
        let name = path.as_path().file_name().unwrap_or_default();
        name.as_encoded_bytes().starts_with(self.temp_prefix().as_bytes())
    }

    /// Opens the bytes that a step replaced.
    pub(crate) fn saved(&self, at: usize) -> Result<File, ApplyError> {
        open(&self.file("saved", at))
    }

    /// Opens the bytes that a step writes.
    pub(crate) fn made(&self, at: usize) -> Result<File, ApplyError> {
        open(&self.file("made", at))
    }

    /// Returns the layer's version of the bytes that a step writes. A pack has none.
    pub(crate) fn theirs(&self, at: usize) -> Result<Option<Vec<u8>>, ApplyError> {
        self.bytes("theirs", at)
    }

    /// Returns the ancestor that the session had before.
    pub(crate) fn old(&self, at: usize) -> Result<Option<Vec<u8>>, ApplyError> {
        self.bytes("old", at)
    }

    fn bytes(&self, sub: &str, at: usize) -> Result<Option<Vec<u8>>, ApplyError> {
        let path = self.file(sub, at);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(|error| failed(&path, error)),
        }
    }

    fn file(&self, sub: &str, at: usize) -> PathBuf {
        self.dir.join(sub).join(at.to_string())
    }

    fn write(&self, sub: &str, at: usize, bytes: &[u8]) -> Result<(), ApplyError> {
        let path = self.file(sub, at);
        create(&path)?.write_all(bytes).map_err(|error| failed(&path, error))
    }
}

fn by_path(steps: &[Step]) -> BTreeMap<(usize, RelPath), Vec<usize>> {
    let mut by_path: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        by_path.entry((step.root, step.path.clone())).or_default().push(at);
    }
    by_path
}

/// Returns the target of a root.
pub(crate) fn find<'a, 't>(targets: &'a [Target<'t>], root: usize) -> &'a Target<'t> {
    targets.iter().find(|target| target.number == root).unwrap_or(&targets[0])
}

fn remove_leftovers(applied: &Path) -> Result<(), ApplyError> {
    let Ok(entries) = fs::read_dir(applied) else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            let path = entry.path();
            fs::remove_dir_all(&path).map_err(|error| failed(&path, error))?;
        }
    }
    Ok(())
}

fn create(path: &Path) -> Result<File, ApplyError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| failed(path, error))
}

fn open(path: &Path) -> Result<File, ApplyError> {
    File::open(path).map_err(|error| failed(path, error))
}

fn open_dir(path: &Path) -> Result<File, ApplyError> {
    open(path)
}

fn failed(path: &Path, source: io::Error) -> ApplyError {
    ApplyError::Journal { path: path.to_path_buf(), source }
}
