//! Repositories in a journal. The steps of a repository are undone together or not at all.
//!
//! Objects stay on the host, because newer refs may need them. Git removes unreachable ones. Only a repository that the
//! apply created is removed with its objects.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use sandbox_git::index::Index;
use sandbox_git::layout::is_object;
use sandbox_git::refs::{self, NO_OBJECT, RefValue};

use super::journal::{Journal, find};
use super::step::{Goal, Source, Step};
use super::task::Task;
use super::write::{self, Attributes};
use super::{ApplyError, Target};
use crate::RelPath;
use crate::diff::Digest;
use crate::host::{HostEntry, HostTree, Kind};
use crate::repository::git_dir_of;

/// Git directory, by root and path.
type Dir = (usize, PathBuf);

/// Repositories of a journal.
pub(super) struct Units {
    /// Git directory of each step inside one.
    of: BTreeMap<(usize, RelPath), PathBuf>,
    /// Git directories.
    dirs: BTreeSet<Dir>,
    /// Git directories that the apply created.
    made: BTreeSet<Dir>,
}

impl Units {
    pub(super) fn of(journal: &Journal, targets: &[Target<'_>]) -> Self {
        let dir = |step: &Step| {
            let dir = git_dir_of(find(targets, step.root).host, &step.path)?;
            Some(((step.root, step.path.clone()), dir))
        };
        let of: BTreeMap<(usize, RelPath), PathBuf> =
            journal.steps.iter().filter_map(dir).collect();
        let dirs = of.iter().map(|((root, _), dir)| (*root, dir.clone())).collect();
        let is_made = |step: &&Step| step.before.is_none() && step.after == Some(Goal::Dir);
        let made = journal.steps.iter().filter(is_made);
        let made = made.map(|step| (step.root, step.path.as_path().to_path_buf())).collect();
        Self { of, dirs, made }
    }

    /// Returns the git directory of a step and the path inside it.
    fn inner<'s>(&self, step: &'s Step) -> Option<(Dir, &'s Path)> {
        let dir = self.of.get(&(step.root, step.path.clone()))?.clone();
        let inner = step.path.as_path().strip_prefix(&dir).ok()?;
        Some(((step.root, dir), inner))
    }

    /// Returns true when a changed path need not stop an undo: objects stay anyway, and logs only grow.
    pub(super) fn may_differ(&self, step: &Step) -> bool {
        self.inner(step).is_some_and(|(_, inner)| inner.starts_with("logs") || is_object(inner))
    }

    /// Returns true when a step is not undone. That applies to objects of a repository that existed before, and to logs
    /// and objects that changed since.
    pub(super) fn stays(&self, step: &Step, host: &HostTree) -> Result<bool, ApplyError> {
        let Some((dir, inner)) = self.inner(step) else { return Ok(false) };
        if is_object(inner) && step.before.is_none() && !self.made.contains(&dir) {
            return Ok(true);
        }
        Ok(self.may_differ(step) && !write::is_after(host, &step.path, step.after.as_ref())?)
    }

    /// Returns true for a step on an internal file of git, which only stores a ref, `HEAD` or an index.
    pub(super) fn is_internal(&self, step: &Step) -> bool {
        let is_dir = step.after == Some(Goal::Dir);
        let at = (step.root, step.path.as_path().to_path_buf());
        if is_dir && self.dirs.contains(&at) {
            return true;
        }
        self.inner(step).is_some_and(|(_, inner)| {
            let has = |name: &str| inner.iter().any(|part| part == name);
            let stored = ["objects", "logs", "shallow"].iter().any(|name| has(name));
            stored || (is_dir && inner.starts_with("refs"))
        })
    }

    /// Adds all steps of a repository to `left` if one of them is left out.
    pub(super) fn spread(&self, journal: &Journal, left: &mut BTreeSet<(usize, RelPath)>) {
        let steps = || journal.steps.iter();
        let is_left = |step: &Step| left.contains(&(step.root, step.path.clone()));
        let dirs: BTreeSet<Dir> = steps()
            .filter(|step| is_left(step))
            .filter_map(|step| Some(self.inner(step)?.0))
            .collect();
        for step in steps() {
            if self.inner(step).is_some_and(|(dir, _)| dirs.contains(&dir)) {
                left.insert((step.root, step.path.clone()));
            }
        }
    }

    /// Returns refs that changed without a change of a step's path: refs that were packed in or added to a repository
    /// that the undo would remove.
    pub(super) fn changed_refs(
        &self,
        journal: &Journal,
        targets: &[Target<'_>],
    ) -> Result<Vec<(usize, RelPath)>, ApplyError> {
        let (mut changed, mut ours) = (Vec::new(), BTreeMap::<Dir, BTreeSet<&Path>>::new());
        for step in &journal.steps {
            let Some((dir, inner)) = self.inner(step) else { continue };
            let host = find(targets, step.root).host;
            let failed = |error| ApplyError::at(&step.path, error);
            if inner.starts_with("refs") && matches!(step.after, Some(Goal::File { .. })) {
                let there = host.stat(&step.path).map_err(failed)?.is_some();
                let packed = refs::packed_value(host, &dir.1, inner).map_err(failed)?.is_some();
                if !there && packed && self.made.contains(&dir) {
                    changed.push((step.root, step.path.clone()));
                }
            }
            ours.entry(dir).or_default().insert(inner);
        }
        for (dir, names) in ours.iter().filter(|(dir, _)| self.made.contains(*dir)) {
            let failed = |source| ApplyError::Host { path: dir.1.clone(), source };
            let refs = refs::all(find(targets, dir.0).host, &dir.1).map_err(failed)?;
            let new = refs.keys().find(|name| !names.contains(Path::new(name)));
            let path = new.and_then(|name| RelPath::new(dir.1.join(name)));
            changed.extend(path.map(|path| (dir.0, path)));
            if new.is_some() {
                // Leaving out `HEAD` keeps the whole repository.
                changed.extend(RelPath::new(dir.1.join("HEAD")).map(|head| (dir.0, head)));
            }
        }
        Ok(changed)
    }
}

/// Returns true when the path is in the state after a step. An index that git only refreshed and a ref that git only
/// packed match too.
pub(super) fn is_after(
    journal: &Journal,
    at: usize,
    target: &Target<'_>,
) -> Result<bool, ApplyError> {
    let step = &journal.steps[at];
    if let Some(value) = packed(step, target)? {
        // Without a known old value, the host's value counts.
        let known = step.before.is_some() || old_value(journal, step)? != Old::Unknown;
        return Ok(step.after.is_some() && known && made_value(journal, at)? == Some(value));
    }
    if write::is_after(target.host, &step.path, step.after.as_ref())? {
        return Ok(true);
    }
    same_index(step, target, || {
        Ok(match &step.after {
            Some(Goal::File { source: Source::Journal, .. }) => Box::new(journal.made(at)?),
            Some(Goal::File { source: Source::Layer, .. }) => target.layer.open(&step.path)?,
            _ => Box::new(std::io::empty()),
        })
    })
}

/// Returns true when the path is in the state before a step. An index that git only refreshed and a ref that git only
/// packed match too.
pub(super) fn is_before(
    journal: &Journal,
    at: usize,
    target: &Target<'_>,
) -> Result<bool, ApplyError> {
    let step = &journal.steps[at];
    if let Some(value) = packed(step, target)? {
        if step.before.is_some() {
            return Ok(parsed(journal.saved(at)?, step)? == Some(value));
        }
        return Ok(match old_value(journal, step)? {
            Old::Known(old) => old == Some(value),
            Old::Unknown => made_value(journal, at)? != Some(value),
        });
    }
    if write::is_before(target.host, &step.path, step.before.as_ref())? {
        return Ok(true);
    }
    same_index(step, target, || {
        let saved = step.before.as_ref().is_some_and(|was| was.kind == Kind::File);
        Ok(if saved { Box::new(journal.saved(at)?) } else { Box::new(std::io::empty()) })
    })
}

/// Returns true when the host's index has the same entries as the given one. Every `git status`, also from prompts and
/// editors, writes new stat data.
fn same_index(
    step: &Step,
    target: &Target<'_>,
    read: impl FnOnce() -> Result<Box<dyn Read + Send>, ApplyError>,
) -> Result<bool, ApplyError> {
    let is_index = step.path.as_path().file_name().is_some_and(|name| name == "index");
    if !is_index || git_dir_of(target.host, &step.path).is_none() {
        return Ok(false);
    }
    let Ok((mut file, _)) = target.host.open_file(&step.path) else { return Ok(false) };
    let (mut now, mut then) = (Vec::new(), Vec::new());
    let failed = |error| ApplyError::at(&step.path, error);
    file.read_to_end(&mut now).map_err(failed)?;
    read()?.read_to_end(&mut then).map_err(failed)?;
    let (now, then) = (Index::parse(&now), Index::parse(&then));
    Ok(now.zip(then).is_some_and(|(now, then)| now.differs(&then).is_empty()))
}

/// Returns the value of a ref that the host has only in `packed-refs`.
fn packed(step: &Step, target: &Target<'_>) -> Result<Option<RefValue>, ApplyError> {
    let failed = |error| ApplyError::at(&step.path, error);
    let Some(dir) = git_dir_of(target.host, &step.path) else { return Ok(None) };
    let Ok(inner) = step.path.as_path().strip_prefix(&dir) else { return Ok(None) };
    if !inner.starts_with("refs") || target.host.stat(&step.path).map_err(failed)?.is_some() {
        return Ok(None);
    }
    refs::packed_value(target.host, &dir, inner).map_err(failed)
}

/// Returns the value of a ref that a step writes.
fn made_value(journal: &Journal, at: usize) -> Result<Option<RefValue>, ApplyError> {
    let step = &journal.steps[at];
    match &step.after {
        Some(Goal::File { source: Source::Journal, .. }) => parsed(journal.made(at)?, step),
        _ => Ok(None),
    }
}

fn parsed(mut from: impl Read, step: &Step) -> Result<Option<RefValue>, ApplyError> {
    let mut text = Vec::new();
    from.read_to_end(&mut text).map_err(|error| ApplyError::at(&step.path, error))?;
    Ok(RefValue::parse(&text))
}

/// Value of a ref before the apply.
#[derive(PartialEq, Eq)]
enum Old {
    Known(Option<RefValue>),
    Unknown,
}

/// Reads the old value of a ref from the line that the apply added to its log.
fn old_value(journal: &Journal, step: &Step) -> Result<Old, ApplyError> {
    let path = step.path.as_path();
    let Some(refs) = path.ancestors().find(|above| above.ends_with("refs")) else {
        return Ok(Old::Unknown);
    };
    let dir = refs.parent().unwrap_or(Path::new(""));
    let log =
        path.strip_prefix(dir).ok().and_then(|inner| RelPath::new(dir.join("logs").join(inner)));
    let is_log = |one: &Step| one.root == step.root && Some(&one.path) == log.as_ref();
    let Some(at) = journal.steps.iter().position(is_log) else { return Ok(Old::Unknown) };
    if !matches!(journal.steps[at].after, Some(Goal::File { source: Source::Journal, .. })) {
        return Ok(Old::Unknown);
    }
    let mut text = Vec::new();
    let read = journal.made(at)?.read_to_end(&mut text);
    read.map_err(|error| ApplyError::at(&step.path, error))?;
    Ok(refs::before_last_change(&text)
        .map_or(Old::Unknown, |id| Old::Known(Some(id).filter(|id| id.id() != Some(NO_OBJECT)))))
}

/// Returns the task that reverts a packed ref, or `None` if the ref is a separate file.
pub(super) fn unpack(
    journal: &Journal,
    at: usize,
    target: &Target<'_>,
    attributes: impl FnOnce(Option<&HostEntry>) -> Attributes,
) -> Result<Option<Task>, ApplyError> {
    let step = &journal.steps[at];
    let failed = |error| ApplyError::at(&step.path, error);
    if step.before.is_some() || packed(step, target)?.is_none() {
        return Ok(None);
    }
    if let Old::Known(Some(old)) = old_value(journal, step)? {
        let line = old.line().into_bytes();
        let digest = Some(Digest::of(&line));
        return Ok(Some(Task::File(
            Box::new(std::io::Cursor::new(line)),
            digest,
            attributes(None),
        )));
    }
    let Some(dir) = git_dir_of(target.host, &step.path) else { return Ok(None) };
    let inner = step.path.as_path().strip_prefix(&dir).unwrap_or(step.path.as_path());
    let text = refs::packed_without(target.host, &dir, inner).map_err(failed)?;
    let Some(path) = RelPath::new(dir.join("packed-refs")) else { return Ok(None) };
    let found = target.host.stat(&path).map_err(failed)?;
    Ok(Some(Task::Rewrite(path, text, attributes(found.as_ref()))))
}
