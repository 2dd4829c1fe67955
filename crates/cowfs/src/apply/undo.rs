//! The way back: the same steps, last first, from what the journal saved.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self as sys, AtFlags};
use rustix::io::Errno;

use super::batch::{self, Task, Way};
use super::journal::{Journal, Status, find};
use super::perform::sync_dirs;
use super::place::{self, Look};
use super::step::{Goal, Step, Was};
use super::tidy::tidy;
use super::{ApplyError, Remember, Target};
use crate::RelPath;
use crate::diff::{Origin, Past};
use crate::host::{HostTree, Kind};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// Everything is as it was, but for these: their root and path, changed since and left alone.
    Done(Vec<(usize, RelPath)>),
    /// Nothing was done, because these changed since.
    Refused(Vec<(usize, RelPath)>),
}

/// Whether paths that changed since stop everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// They do.
    Stop,
    /// They are left alone, and the rest is taken back.
    LeaveOut,
}

/// Takes an apply back.
pub fn undo(
    journal: &mut Journal,
    targets: &[Target<'_>],
    changed: Changed,
) -> Result<Undone, ApplyError> {
    for at in 0..journal.steps.len() {
        tidy(journal, at, find(targets, journal.steps[at].root).host)?;
    }
    let left = changed_since(journal, targets)?;
    if !left.is_empty() && changed == Changed::Stop {
        return Ok(Undone::Refused(left));
    }
    journal.set(Status::Undoing)?;
    backwards(journal, targets, &left)?;
    journal.set(Status::Undone)?;
    Ok(Undone::Done(left))
}

/// Takes back what an apply that failed has done so far.
pub(super) fn take_back(journal: &mut Journal, targets: &[Target<'_>]) -> Result<(), ApplyError> {
    journal.set(Status::Undoing)?;
    let left = changed_since(journal, targets)?;
    backwards(journal, targets, &left)?;
    journal.set(Status::Undone)?;
    journal.forget();
    Ok(())
}

/// Tells the session what its base was before the apply.
pub fn unremember(
    journal: &Journal,
    root: usize,
    host: &HostTree,
    record: &mut dyn Remember,
) -> Result<(), ApplyError> {
    for (at, step) in journal.steps.iter().enumerate().filter(|(_, step)| step.root == root) {
        let origin = old_origin(step, host)?;
        record.set(&step.path, &origin, journal.old(at)?.as_deref())?;
    }
    Ok(())
}

/// What the session knew, where that was what is back now: known by its new inode too, because not
/// everything that it knew was known by content.
fn old_origin(step: &Step, host: &HostTree) -> Result<Origin, ApplyError> {
    let (Origin::There(past), Some(was)) = (&step.origin, &step.before) else {
        return Ok(step.origin.clone());
    };
    let now = host.stat(&step.path).map_err(|error| ApplyError::at(&step.path, error))?;
    match now {
        Some(now) if past.stamp == was.stamp && place::is_before(host, &step.path, Some(was))? => {
            let digest = past.digest.or(was.digest);
            Ok(Origin::There(Past { stamp: now.stamp, digest, ..past.clone() }))
        }
        _ => Ok(step.origin.clone()),
    }
}

/// Paths that are neither what the apply made nor what was there before.
fn changed_since(
    journal: &Journal,
    targets: &[Target<'_>],
) -> Result<Vec<(usize, RelPath)>, ApplyError> {
    let mut changed = BTreeSet::new();
    for step in &journal.steps {
        if !is_known(journal, step, find(targets, step.root).host)? {
            changed.insert((step.root, step.path.clone()));
        }
    }
    Ok(changed.into_iter().collect())
}

fn is_known(journal: &Journal, step: &Step, host: &HostTree) -> Result<bool, ApplyError> {
    for (_, state) in journal.of_path(step) {
        if place::is_after(host, &step.path, state.after.as_ref())?
            || place::is_before(host, &step.path, state.before.as_ref())?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn backwards(
    journal: &Journal,
    targets: &[Target<'_>],
    left: &[(usize, RelPath)],
) -> Result<(), ApplyError> {
    let left: BTreeSet<(usize, &RelPath)> = left.iter().map(|(root, path)| (*root, path)).collect();
    let is_left = |step: &Step| left.contains(&(step.root, &step.path));
    let order: Vec<usize> =
        (0..journal.steps.len()).rev().filter(|at| !is_left(&journal.steps[*at])).collect();
    batch::run::<Back>(journal, &order, targets, &mut |_| Ok(()))?;
    for step in &journal.steps {
        restore_time(step, find(targets, step.root).host)?;
    }
    sync_dirs(&journal.steps, targets)
}

/// From what is to what was.
struct Back;

impl Way for Back {
    const MARK: &'static str = "u";

    /// Whether the path is what it was before this step, or before an earlier one of the same path.
    fn is_done(journal: &Journal, at: usize, host: &HostTree) -> Result<bool, ApplyError> {
        let step = &journal.steps[at];
        for (_, earlier) in journal.of_path(step).filter(|(earlier, _)| *earlier <= at) {
            if place::is_before(host, &earlier.path, earlier.before.as_ref())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn task(
        journal: &Journal,
        at: usize,
        target: &Target<'_>,
        _dir: &OwnedFd,
    ) -> Result<Task, ApplyError> {
        let step = &journal.steps[at];
        if !place::is_after(target.host, &step.path, step.after.as_ref())? {
            return Err(ApplyError::Raced { path: step.path.as_path().to_path_buf() });
        }
        let Some(was) = &step.before else {
            let is_dir = step.after == Some(Goal::Dir);
            return Ok(if is_dir { Task::RemoveDirIfEmpty } else { Task::Take });
        };
        let look = look(was);
        Ok(match (was.kind, &was.target) {
            (Kind::Dir, _) => Task::MakeDir(look),
            (Kind::Symlink, Some(target)) => Task::Link(target.clone(), look),
            _ => Task::File(Box::new(journal.saved(at)?), was.digest, look),
        })
    }
}

fn look(was: &Was) -> Look {
    Look {
        mode: Some(was.mode),
        executable: false,
        owner: (was.uid, was.gid),
        xattrs: was.xattrs.clone(),
        mtime: Some(was.stamp.mtime),
    }
}

/// A directory that is back gets its time when everything is back in it.
fn restore_time(step: &Step, host: &HostTree) -> Result<(), ApplyError> {
    let Some(was) = step.before.as_ref().filter(|was| was.kind == Kind::Dir) else { return Ok(()) };
    let failed = |error| ApplyError::at(&step.path, error);
    match host.parent(&step.path) {
        Err(error) if crate::host::is_absent(&error) => Ok(()),
        Err(error) => Err(failed(error)),
        Ok((dir, name)) => {
            let times = place::times(was.stamp.mtime);
            match sys::utimensat(&dir, Path::new(name), &times, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(failed(error.into())),
            }
        }
    }
}
