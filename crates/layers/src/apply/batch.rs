//! Batches of steps: prepared and synced together, then put in place one by one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self as sys, AtFlags};
use rustix::io::Errno;

use super::journal::{Journal, find};
use super::step::Step;
use super::task::Task;
use super::tidy::tidy;
use super::write::{self, Attributes};
use super::{ApplyError, Target};
use crate::RelPath;

/// Maximum number of files that are prepared before the first is put in place.
const BATCH: usize = 256;
/// Number of files from which the whole filesystem is synced instead of each file.
const MANY: usize = 12;

type Test = fn(&Journal, usize, &Target<'_>) -> Result<bool, ApplyError>;

/// Direction in which the steps of a journal run: forward for an apply, backward for an undo.
pub(super) struct Direction {
    /// Suffix of the names of prepared files.
    pub(super) mark: &'static str,
    /// Returns true when the second of two steps of the same path runs at the same time or later.
    pub(super) is_ahead: fn(usize, usize) -> bool,
    /// Returns true when the path is in the state before a step.
    pub(super) is_at_start: Test,
    /// Returns true when the path is in the state after a step.
    pub(super) is_at_end: Test,
    /// Returns the task of a step.
    pub(super) task: fn(&Journal, usize, &Target<'_>, &OwnedFd) -> Result<Task, ApplyError>,
}

impl Direction {
    /// Returns true when a path is in the state after a step, or after a later step of the same path.
    fn is_done(
        &self,
        journal: &Journal,
        at: usize,
        target: &Target<'_>,
    ) -> Result<bool, ApplyError> {
        for (other, _) in journal.of_path(&journal.steps[at]) {
            if (self.is_ahead)(at, other) && (self.is_at_end)(journal, other, target)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the task of a step. Fails if the host is not in the expected state.
    fn task(
        &self,
        journal: &Journal,
        at: usize,
        target: &Target<'_>,
        dir: &OwnedFd,
    ) -> Result<Task, ApplyError> {
        if (self.is_at_start)(journal, at, target)? {
            return (self.task)(journal, at, target, dir);
        }
        Err(ApplyError::Raced { path: journal.steps[at].path.as_path().to_path_buf() })
    }
}

/// Runs steps in the given order. Calls `done` after each.
pub(super) fn run(
    direction: &Direction,
    journal: &Journal,
    order: &[usize],
    targets: &[Target<'_>],
    done: &mut dyn FnMut(usize) -> Result<(), ApplyError>,
) -> Result<(), ApplyError> {
    for batch in order.chunks(BATCH) {
        let result = one_batch(direction, journal, batch, targets, done);
        if result.is_err() {
            for at in batch {
                tidy(journal, *at, find(targets, journal.steps[*at].root))?;
            }
        }
        result?;
    }
    Ok(())
}

fn one_batch(
    direction: &Direction,
    journal: &Journal,
    batch: &[usize],
    targets: &[Target<'_>],
    done: &mut dyn FnMut(usize) -> Result<(), ApplyError>,
) -> Result<(), ApplyError> {
    let sync = if batch.len() < MANY { write::Sync::Each } else { write::Sync::Together };
    let mut prepared = Vec::new();
    for &at in batch {
        let target = find(targets, journal.steps[at].root);
        tidy(journal, at, target)?;
        if direction.is_done(journal, at, target)? {
            done(at)?;
        } else if prepare(direction, journal, at, target, sync)? {
            prepared.push(at);
        } else {
            done(at)?;
        }
    }
    if sync == write::Sync::Together && !prepared.is_empty() {
        sync_all(journal, &prepared, targets)?;
    }
    for at in prepared {
        put(direction, journal, at, find(targets, journal.steps[at].root))?;
        done(at)?;
    }
    Ok(())
}

/// Syncs prepared files.
fn sync_all(
    journal: &Journal,
    prepared: &[usize],
    targets: &[Target<'_>],
) -> Result<(), ApplyError> {
    sync_roots(targets, |root| prepared.iter().any(|at| journal.steps[*at].root == root))
}

/// Syncs the filesystems of some roots.
fn sync_roots(targets: &[Target<'_>], is_used: impl Fn(usize) -> bool) -> Result<(), ApplyError> {
    for target in targets.iter().filter(|target| is_used(target.number)) {
        sys::syncfs(target.host.root()).map_err(|error| ApplyError::Host {
            path: target.host.path().to_path_buf(),
            source: error.into(),
        })?;
    }
    Ok(())
}

/// Syncs the directories of the steps, which makes the new names durable.
pub(super) fn sync_dirs(steps: &[Step], targets: &[Target<'_>]) -> Result<(), ApplyError> {
    let parents: BTreeSet<_> = steps
        .iter()
        .map(|step| (step.root, step.path.as_path().parent().unwrap_or(Path::new(""))))
        .collect();
    if parents.len() >= MANY {
        return sync_roots(targets, |root| parents.iter().any(|(used, _)| *used == root));
    }
    for (root, parent) in parents {
        let host = find(targets, root).host;
        let Some(any) = RelPath::new(parent.join("x")) else { continue };
        match host.parent(&any) {
            Err(error) if crate::host::is_absent(&error) => {}
            Err(error) => return Err(ApplyError::at(&any, error)),
            Ok((dir, _)) => {
                sys::fsync(&dir).map_err(|error| ApplyError::at(&any, error.into()))?;
            }
        }
    }
    Ok(())
}

/// Runs a step directly, or prepares it. Returns true if it must still be put in place.
fn prepare(
    direction: &Direction,
    journal: &Journal,
    at: usize,
    target: &Target<'_>,
    sync: write::Sync,
) -> Result<bool, ApplyError> {
    let path = &journal.steps[at].path;
    let failed = |error: io::Error| ApplyError::at(path, error);
    let (dir, name) = target.host.parent(path).map_err(failed)?;
    let temp = journal.temp(at, direction.mark);
    let temp = OsStr::new(&temp);
    match direction.task(journal, at, target, &dir)? {
        Task::RemoveDir => remove_dir(&dir, name).map(|()| false).map_err(failed),
        Task::RemoveDirIfEmpty => match remove_dir(&dir, name) {
            // The directory contains entries that are not from the apply.
            Err(error) if error.raw_os_error() == Some(Errno::NOTEMPTY.raw_os_error()) => Ok(false),
            removed => removed.map(|()| false).map_err(failed),
        },
        Task::Take => {
            let now = crate::host::stat_at(&dir, name).map_err(failed)?;
            let taken = now.map_or(Ok(()), |now| write::take(&dir, name, temp, &now.stamp));
            taken.map(|()| false).map_err(failed)
        }
        Task::MakeDir(attributes) => {
            write::make_dir(&dir, temp, name, &attributes).map(|()| false).map_err(failed)
        }
        Task::Link(link, attributes) => {
            let made = write::link_temp(&dir, temp, link.as_os_str(), &attributes);
            made.map(|()| true).map_err(failed)
        }
        Task::Rewrite(file, text, attributes) => rewrite(target, &file, temp, &text, &attributes)
            .map(|()| false)
            .map_err(|error| ApplyError::at(&file, error)),
        Task::File(mut content, digest, attributes) => {
            let written =
                write::write_temp(&dir, temp, &mut content, &attributes, sync).map_err(failed)?;
            if Some(written) != digest {
                return Err(ApplyError::Changed { path: path.as_path().to_path_buf() });
            }
            Ok(true)
        }
    }
}

/// Replaces the content of a file. Overwrites a temporary file that a killed attempt left.
fn rewrite(
    target: &Target<'_>,
    file: &RelPath,
    temp: &OsStr,
    text: &[u8],
    attributes: &Attributes,
) -> io::Result<()> {
    let (dir, name) = target.host.parent(file)?;
    match sys::unlinkat(&dir, temp, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let now = crate::host::stat_at(&dir, name)?.map(|found| found.stamp);
    write::write_temp(&dir, temp, &mut { text }, attributes, write::Sync::Each)?;
    write::put(&dir, temp, name, now.as_ref())
}

fn remove_dir(dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match sys::unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Puts a prepared step in place, if the host is still in the expected state.
fn put(
    direction: &Direction,
    journal: &Journal,
    at: usize,
    target: &Target<'_>,
) -> Result<(), ApplyError> {
    let path = &journal.steps[at].path;
    let failed = |error: io::Error| ApplyError::at(path, error);
    let (dir, name) = target.host.parent(path).map_err(failed)?;
    direction.task(journal, at, target, &dir).map(drop)?;
    let now = crate::host::stat_at(&dir, name).map_err(failed)?.map(|found| found.stamp);
    let temp = journal.temp(at, direction.mark);
    write::put(&dir, OsStr::new(&temp), name, now.as_ref()).map_err(failed)
}
