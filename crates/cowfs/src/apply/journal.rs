//! What an apply is about to do, and everything it replaces, on disk before the first write.
//!
//! ```text
//! applied/0001/steps.json   the steps, in order
//! applied/0001/saved/3      the bytes that step 3 replaces or removes
//! applied/0001/made/3       the bytes that step 3 writes, where they are not in the layer
//! applied/0001/theirs/3     what of the layer went into them
//! applied/0001/old/3        the ancestor that the session had before
//! applied/0001/status       applying, applied, undoing, undone
//! applied/0001/progress     the numbers of the steps that are done
//! ```
//! A directory with another name than a number was never complete: nothing was written for it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::step::{Goal, Source, Step};
use super::{ApplyError, Target};
use crate::RelPath;
use crate::diff::Digest;
use crate::host::Kind;

/// How far an apply got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is being done, or was interrupted.
    Applying,
    /// It is done.
    Applied,
    /// It is being taken back, or that was interrupted.
    Undoing,
    /// It was taken back.
    Undone,
}

/// The journal of one apply.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    /// Its number.
    pub number: u32,
    /// The steps.
    pub steps: Vec<Step>,
    /// How far it got.
    pub status: Status,
    mark: u64,
    /// The steps of each path, in order.
    by_path: BTreeMap<(usize, RelPath), Vec<usize>>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    /// Makes the names of prepared files unlike any other.
    mark: u64,
    steps: Vec<Step>,
}

impl Journal {
    /// All journals of a session, oldest first. What was never complete is removed.
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

    fn open(applied: &Path, number: u32) -> Result<Self, ApplyError> {
        let dir = applied.join(format!("{number:04}"));
        let read = |name: &str| {
            let path = dir.join(name);
            fs::read(&path).map_err(|error| failed(&path, error))
        };
        let damaged = |source| ApplyError::Damaged { path: dir.clone(), source };
        let Written { mark, steps } =
            serde_json::from_slice(&read("steps.json")?).map_err(damaged)?;
        let status = serde_json::from_slice(&read("status")?).map_err(damaged)?;
        let by_path = by_path(&steps);
        Ok(Self { dir, number, steps, status, mark, by_path })
    }

    /// Writes the intent and saves what will be replaced. Nothing on the host changes.
    pub fn begin(applied: &Path, plan: &Plan, targets: &[Target<'_>]) -> Result<Self, ApplyError> {
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
        let journal = Self { dir, number, steps, status: Status::Applying, mark, by_path };
        for (at, step) in journal.steps.iter().enumerate() {
            journal.save(at, step, plan, targets)?;
        }
        journal.seal(applied)
    }

    /// Saves everything that one step needs, forwards and backwards.
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
        match target.record.ancestor(&step.path)? {
            Some(old) => self.write("old", at, &old),
            None => Ok(()),
        }
    }

    /// Gives the journal its number, when all of it is on the disk.
    fn seal(mut self, applied: &Path) -> Result<Self, ApplyError> {
        let written = Written { mark: self.mark, steps: std::mem::take(&mut self.steps) };
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

    /// Says how far it got, for good.
    pub fn set(&mut self, status: Status) -> Result<(), ApplyError> {
        let (new, path) = (self.dir.join("status.new"), self.dir.join("status"));
        let text = serde_json::to_vec(&status)
            .map_err(|source| ApplyError::Damaged { path: self.dir.clone(), source })?;
        let mut file = File::create(&new).map_err(|error| failed(&new, error))?;
        let done = file.write_all(&text).and_then(|()| file.sync_all());
        let done = done.and_then(|()| fs::rename(&new, &path));
        done.map_err(|error| failed(&path, error))?;
        let synced = open_dir(&self.dir)?.sync_all();
        synced.map_err(|error| failed(&self.dir, error))?;
        self.status = status;
        Ok(())
    }

    /// Marks a step as done: for whoever looks into the journal, since states are told by content.
    pub(crate) fn mark(&self, at: usize) -> Result<(), ApplyError> {
        let path = self.dir.join("progress");
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let marked = file.and_then(|mut file| writeln!(file, "{at}"));
        marked.map_err(|error| failed(&path, error))
    }

    /// Forgets the saved bytes of an apply that was taken back.
    pub(crate) fn forget(&self) {
        for sub in ["saved", "made", "theirs", "old"] {
            // Only space is lost when this fails.
            let _ = fs::remove_dir_all(self.dir.join(sub));
        }
    }

    /// All steps of the path of a step, in order.
    pub(crate) fn of_path(&self, step: &Step) -> impl Iterator<Item = (usize, &Step)> {
        let found = self.by_path.get(&(step.root, step.path.clone()));
        found.into_iter().flatten().map(|at| (*at, &self.steps[*at]))
    }

    /// The name under which a step is prepared beside its path.
    pub(crate) fn temp(&self, at: usize, way: &str) -> String {
        format!(".agent-sandbox-{:016x}-{at}{way}", self.mark)
    }

    /// The bytes that a step replaced.
    pub(crate) fn saved(&self, at: usize) -> Result<File, ApplyError> {
        open(&self.file("saved", at))
    }

    /// The bytes that a step writes.
    pub(crate) fn made(&self, at: usize) -> Result<File, ApplyError> {
        open(&self.file("made", at))
    }

    /// What of the layer went into the bytes that a step wrote.
    pub(crate) fn theirs(&self, at: usize) -> Result<Vec<u8>, ApplyError> {
        let path = self.file("theirs", at);
        fs::read(&path).map_err(|error| failed(&path, error))
    }

    /// The ancestor that the session had before.
    pub(crate) fn old(&self, at: usize) -> Result<Option<Vec<u8>>, ApplyError> {
        let path = self.file("old", at);
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

/// The target of a step.
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
