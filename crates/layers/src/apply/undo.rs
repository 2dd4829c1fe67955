//! Undo: the steps of a journal in reverse order.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{self as sys, AtFlags};
use rustix::io::Errno;

use super::batch::{self, Direction};
use super::journal::{Journal, Status, find};
use super::step::{Goal, Original, Step};
use super::task::Task;
use super::tidy::tidy;
use super::unit::{self, Units};
use super::write::{self, Attributes};
use super::{ApplyError, Base, RecordOrigin, SaveBase, Target};
use crate::RelPath;
use crate::diff::{Digest, Origin, Origins, Past};
use crate::host::{HostEntry, HostTree, Kind};

/// Outcome of an undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// The apply was reverted, except for the paths in `left`.
    Done {
        /// Root and path of entries that changed since, and of those left out with them.
        left: Vec<(usize, RelPath)>,
        /// Number of reverted steps, without git's internal files.
        count: usize,
    },
    /// Nothing was reverted, because these paths changed since.
    Refused(Vec<(usize, RelPath)>),
}

/// Effect of paths that changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// Nothing is reverted.
    Stop,
    /// They are left out, and the rest is reverted.
    LeaveOut,
}

/// Reverts an apply.
///
/// The base is saved twice. The first time is before the first write, so that after a kill every restored path counts
/// as not applied. The second time is at the end, when the inodes of the restored files are known. Only then is the
/// status set to undone.
pub fn undo(
    journal: &mut Journal,
    targets: &[Target<'_>],
    changed: Changed,
    save_base: SaveBase<'_>,
) -> Result<Undone, ApplyError> {
    for at in 0..journal.steps.len() {
        tidy(journal, at, find(targets, journal.steps[at].root))?;
    }
    let left = changed_since(journal, targets)?;
    if !left.is_empty() && changed == Changed::Stop {
        return Ok(Undone::Refused(left));
    }
    journal.set(Status::Undoing)?;
    save_base(journal, Base::Old)?;
    let units = Units::of(journal, targets);
    let mut all: BTreeSet<(usize, RelPath)> = left.into_iter().collect();
    units.spread(journal, &mut all);
    backwards(journal, targets, &all)?;
    save_base(journal, Base::Old)?;
    let is_left = |step: &&Step| all.contains(&(step.root, step.path.clone()));
    let worth = || journal.steps.iter().filter(|step| !units.is_internal(step));
    let count = worth().filter(|step| !is_left(step)).count();
    let left: BTreeSet<_> =
        worth().filter(is_left).map(|step| (step.root, step.path.clone())).collect();
    journal.base_is_back(left.len())?;
    journal.set(Status::Undone)?;
    Ok(Undone::Done { left: left.into_iter().collect(), count })
}

/// Reverts the completed steps of a failed apply.
pub(super) fn roll_back(
    journal: &mut Journal,
    targets: &[Target<'_>],
    save_base: SaveBase<'_>,
) -> Result<(), ApplyError> {
    journal.set(Status::Undoing)?;
    let mut left = changed_since(journal, targets)?.into_iter().collect();
    Units::of(journal, targets).spread(journal, &mut left);
    backwards(journal, targets, &left)?;
    save_base(journal, Base::Old)?;
    journal.base_is_back(left.len())?;
    journal.set(Status::Undone)?;
    journal.forget();
    Ok(())
}

/// Records the base as it was before the apply.
pub fn record_reverted(
    journal: &Journal,
    root: usize,
    host: &HostTree,
    record: &mut dyn RecordOrigin,
) -> Result<(), ApplyError> {
    for (at, step) in journal.steps.iter().enumerate().filter(|(_, step)| step.root == root) {
        let origin = old_origin(step, host)?;
        record.set(&step.path, &origin, journal.old(at)?.as_deref())?;
    }
    Ok(())
}

/// Restores the base of undone applies in a root's record, where it still counts them as applied and the host does not
/// match. Returns true when the record changed.
///
/// For each path only its last apply counts.
pub(crate) fn recover_base<R: Origins + RecordOrigin>(
    journals: &[Journal],
    root: usize,
    host: &HostTree,
    record: &mut R,
) -> Result<bool, ApplyError> {
    let (mut seen, mut changed) = (BTreeSet::new(), false);
    for journal in journals.iter().rev() {
        let doubtful = journal.status == Status::Undone && !journal.is_base_back();
        // From the end, because the last step of a path has the final state of the apply.
        for (at, step) in journal.steps.iter().enumerate().rev() {
            if step.root != root || !seen.insert(&step.path) || !doubtful {
                continue;
            }
            let known = record.origin(&step.path)?;
            if is_left_by(journal, at, &known)? && !is_on_host(host, &step.path, &known)? {
                record.set(&step.path, &old_origin(step, host)?, journal.old(at)?.as_deref())?;
                changed = true;
            }
        }
    }
    Ok(changed)
}

/// Returns true when an origin is the one recorded for an applied step.
fn is_left_by(journal: &Journal, at: usize, known: &Origin) -> Result<bool, ApplyError> {
    let left = |kind: Kind, executable: Option<bool>, digest: Option<Digest>| {
        let Origin::There(past) = known else { return false };
        past.kind == kind
            && past.digest == digest
            && executable.is_none_or(|executable| past.executable == executable)
    };
    Ok(match &journal.steps[at].after {
        None => *known == Origin::Absent,
        Some(Goal::Dir) => left(Kind::Dir, None, None),
        Some(Goal::Symlink { target }) => left(Kind::Symlink, None, Some(Digest::of(&target.0))),
        Some(Goal::File { digest, executable, .. }) => {
            let theirs = journal.theirs(at)?.map_or(*digest, |theirs| Digest::of(&theirs));
            left(Kind::File, Some(*executable), Some(theirs))
        }
    })
}

/// Returns true when the host's entry at a path matches an origin by inode and times.
fn is_on_host(host: &HostTree, path: &RelPath, known: &Origin) -> Result<bool, ApplyError> {
    let now = host.stat(path).map_err(|error| ApplyError::at(path, error))?;
    Ok(match (known, now) {
        (Origin::There(past), Some(now)) => past.stamp == now.stamp,
        (Origin::Absent, None) => true,
        _ => false,
    })
}

/// Returns the origin before the apply, if the host has that state again. Its stamp gets the new inode, because not
/// every origin has a content hash.
fn old_origin(step: &Step, host: &HostTree) -> Result<Origin, ApplyError> {
    let (Origin::There(past), Some(was)) = (&step.origin, &step.before) else {
        return Ok(step.origin.clone());
    };
    let now = host.stat(&step.path).map_err(|error| ApplyError::at(&step.path, error))?;
    match now {
        Some(now) if past.stamp == was.stamp && write::is_before(host, &step.path, Some(was))? => {
            let digest = past.digest.or(was.digest);
            Ok(Origin::There(Past { stamp: now.stamp, digest, ..past.clone() }))
        }
        _ => Ok(step.origin.clone()),
    }
}

/// Returns paths that match neither the state after the apply nor the state before, and those that cannot be restored
/// because their directory is missing.
fn changed_since(
    journal: &Journal,
    targets: &[Target<'_>],
) -> Result<Vec<(usize, RelPath)>, ApplyError> {
    let units = Units::of(journal, targets);
    let mut changed: BTreeSet<_> = units.changed_refs(journal, targets)?.into_iter().collect();
    // True for directories that exist, or will exist after their own step is reverted.
    let mut dirs: HashMap<(usize, PathBuf), bool> = HashMap::new();
    // Parents before children.
    for ((root, path), first) in journal.first_steps() {
        let host = find(targets, root).host;
        let parent = path.as_path().parent().unwrap_or(Path::new(""));
        let reached = match dirs.get(&(root, parent.to_path_buf())) {
            Some(reached) => *reached,
            None => is_dir(host, parent)?,
        };
        let known = units.may_differ(first)
            || is_known(journal, first, find(targets, root))?
                && (reached || first.before.is_none());
        if !known {
            changed.insert((root, path.clone()));
        }
        let comes_back = first.before.as_ref().is_some_and(|was| was.kind == Kind::Dir);
        let is_there = known && comes_back || is_dir(host, path.as_path())?;
        dirs.insert((root, path.as_path().to_path_buf()), is_there);
    }
    Ok(changed.into_iter().collect())
}

fn is_dir(host: &HostTree, path: &Path) -> Result<bool, ApplyError> {
    let Some(path) = RelPath::new(path) else { return Ok(true) };
    let found = host.stat(&path).map_err(|error| ApplyError::at(&path, error))?;
    Ok(found.is_some_and(|found| found.kind == Kind::Dir))
}

fn is_known(journal: &Journal, step: &Step, target: &Target<'_>) -> Result<bool, ApplyError> {
    for (at, _) in journal.of_path(step) {
        if unit::is_after(journal, at, target)? || unit::is_before(journal, at, target)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn backwards(
    journal: &Journal,
    targets: &[Target<'_>],
    left: &BTreeSet<(usize, RelPath)>,
) -> Result<(), ApplyError> {
    let units = Units::of(journal, targets);
    let mut order = Vec::new();
    for (at, step) in journal.steps.iter().enumerate().rev() {
        let stays = units.stays(step, find(targets, step.root).host)?;
        if !stays && !left.contains(&(step.root, step.path.clone())) {
            order.push(at);
        }
    }
    batch::run(&BACKWARD, journal, &order, targets, &mut |_| Ok(()))?;
    for step in &journal.steps {
        restore_time(step, find(targets, step.root).host)?;
    }
    batch::sync_dirs(&journal.steps, targets)
}

/// Direction of an undo.
const BACKWARD: Direction = Direction {
    mark: "u",
    is_ahead: |at, other| other <= at,
    is_at_start: unit::is_after,
    is_at_end: unit::is_before,
    task,
};

fn task(
    journal: &Journal,
    at: usize,
    target: &Target<'_>,
    dir: &OwnedFd,
) -> Result<Task, ApplyError> {
    let step = &journal.steps[at];
    if let Some(task) = unit::unpack(journal, at, target, |found| like(found, dir))? {
        return Ok(task);
    }
    let Some(was) = &step.before else {
        let is_dir = step.after == Some(Goal::Dir);
        return Ok(if is_dir { Task::RemoveDirIfEmpty } else { Task::Take });
    };
    let attributes = attributes(was);
    Ok(match (was.kind, &was.target) {
        (Kind::Dir, _) => Task::MakeDir(attributes),
        (Kind::Symlink, Some(target)) => Task::Link(target.clone(), attributes),
        _ => Task::File(Box::new(journal.saved(at)?), was.digest, attributes),
    })
}

/// Returns the attributes of a host file, or of a new one in a directory.
fn like(found: Option<&HostEntry>, dir: &OwnedFd) -> Attributes {
    let parent = sys::fstat(dir).ok().map(HostEntry::from);
    let owner = found.or(parent.as_ref()).map_or((0, 0), |one| (one.uid, one.gid));
    let mode = found.map(|found| found.mode);
    Attributes { mode, limit: None, executable: false, owner, xattrs: Vec::new(), mtime: None }
}

fn attributes(was: &Original) -> Attributes {
    Attributes {
        mode: Some(was.mode),
        limit: None,
        executable: false,
        owner: (was.uid, was.gid),
        xattrs: was.xattrs.clone(),
        mtime: Some(was.stamp.mtime),
    }
}

/// Restores the time of a directory after all of its entries are restored.
fn restore_time(step: &Step, host: &HostTree) -> Result<(), ApplyError> {
    let Some(was) = step.before.as_ref().filter(|was| was.kind == Kind::Dir) else { return Ok(()) };
    let failed = |error| ApplyError::at(&step.path, error);
    match host.parent(&step.path) {
        Err(error) if crate::host::is_absent(&error) => Ok(()),
        Err(error) => Err(failed(error)),
        Ok((dir, name)) => {
            let times = write::times(was.stamp.mtime);
            match sys::utimensat(&dir, Path::new(name), &times, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(failed(error.into())),
            }
        }
    }
}
