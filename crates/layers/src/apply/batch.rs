//! Doing many steps: prepared together, made durable together, then put in place one by one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self as sys, AtFlags};
use rustix::io::Errno;

use super::journal::{Journal, find};
use super::place::{self, Look};
use super::step::Step;
use super::task::Task;
use super::tidy::tidy;
use super::{ApplyError, Target};
use crate::RelPath;

/// As many files are prepared before the first of them is put in place.
const BATCH: usize = 256;
/// From here on the whole filesystem is made durable at once, instead of file by file.
const MANY: usize = 12;

/// Direction in which the steps of a journal are done: an apply goes forward, an undo backward.
pub(super) trait Direction {
    /// Ending of the names of prepared files.
    const MARK: &'static str;

    /// Returns true when `other`, a step of the path of `at`, is done at the same time as `at` or later.
    fn is_ahead(at: usize, other: usize) -> bool;

    /// Returns true when the path is as it must be before a step is done.
    fn is_at_start(journal: &Journal, at: usize, target: &Target<'_>) -> Result<bool, ApplyError>;

    /// Returns true when the path is as it must be after a step was done.
    fn is_at_end(journal: &Journal, at: usize, target: &Target<'_>) -> Result<bool, ApplyError>;

    /// Returns what a step does on the host.
    fn task(
        journal: &Journal,
        at: usize,
        target: &Target<'_>,
        dir: &OwnedFd,
    ) -> Result<Task, ApplyError>;
}

/// Returns true when a path is where a step, or a later one of the same path, brings it.
fn is_done<D: Direction>(
    journal: &Journal,
    at: usize,
    target: &Target<'_>,
) -> Result<bool, ApplyError> {
    for (other, _) in journal.of_path(&journal.steps[at]) {
        if D::is_ahead(at, other) && D::is_at_end(journal, other, target)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns what a step does. Fails if the host is not what the step expects.
fn task<D: Direction>(
    journal: &Journal,
    at: usize,
    target: &Target<'_>,
    dir: &OwnedFd,
) -> Result<Task, ApplyError> {
    if D::is_at_start(journal, at, target)? {
        return D::task(journal, at, target, dir);
    }
    Err(ApplyError::Raced { path: journal.steps[at].path.as_path().to_path_buf() })
}

/// Does steps in the given order. `done` is called after each.
pub(super) fn run<D: Direction>(
    journal: &Journal,
    order: &[usize],
    targets: &[Target<'_>],
    done: &mut dyn FnMut(usize) -> Result<(), ApplyError>,
) -> Result<(), ApplyError> {
    for batch in order.chunks(BATCH) {
        let result = one_batch::<D>(journal, batch, targets, done);
        if result.is_err() {
            for at in batch {
                tidy(journal, *at, find(targets, journal.steps[*at].root))?;
            }
        }
        result?;
    }
    Ok(())
}

fn one_batch<D: Direction>(
    journal: &Journal,
    batch: &[usize],
    targets: &[Target<'_>],
    done: &mut dyn FnMut(usize) -> Result<(), ApplyError>,
) -> Result<(), ApplyError> {
    let sync = if batch.len() < MANY { place::Sync::Each } else { place::Sync::Together };
    let mut prepared = Vec::new();
    for &at in batch {
        let target = find(targets, journal.steps[at].root);
        tidy(journal, at, target)?;
        if is_done::<D>(journal, at, target)? {
            done(at)?;
        } else if prepare::<D>(journal, at, target, sync)? {
            prepared.push(at);
        } else {
            done(at)?;
        }
    }
    if sync == place::Sync::Together && !prepared.is_empty() {
        sync_all(journal, &prepared, targets)?;
    }
    for at in prepared {
        put::<D>(journal, at, find(targets, journal.steps[at].root))?;
        done(at)?;
    }
    Ok(())
}

/// Makes what was prepared durable.
fn sync_all(
    journal: &Journal,
    prepared: &[usize],
    targets: &[Target<'_>],
) -> Result<(), ApplyError> {
    sync_roots(targets, |root| prepared.iter().any(|at| journal.steps[*at].root == root))
}

/// Makes everything on the filesystems of some roots durable.
fn sync_roots(targets: &[Target<'_>], is_used: impl Fn(usize) -> bool) -> Result<(), ApplyError> {
    for target in targets.iter().filter(|target| is_used(target.number)) {
        sys::syncfs(target.host.root()).map_err(|error| ApplyError::Host {
            path: target.host.path().to_path_buf(),
            source: error.into(),
        })?;
    }
    Ok(())
}

/// Makes the new names durable.
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

/// Does a step at once, or prepares it. Returns whether it is still to be put in place.
fn prepare<D: Direction>(
    journal: &Journal,
    at: usize,
    target: &Target<'_>,
    sync: place::Sync,
) -> Result<bool, ApplyError> {
    let path = &journal.steps[at].path;
    let failed = |error: io::Error| ApplyError::at(path, error);
    let (dir, name) = target.host.parent(path).map_err(failed)?;
    let temp = journal.temp(at, D::MARK);
    let temp = OsStr::new(&temp);
    match task::<D>(journal, at, target, &dir)? {
        Task::RemoveDir => remove_dir(&dir, name).map(|()| false).map_err(failed),
        Task::RemoveDirIfEmpty => match remove_dir(&dir, name) {
            // Somebody put something there since: it is theirs.
            Err(error) if error.raw_os_error() == Some(Errno::NOTEMPTY.raw_os_error()) => Ok(false),
            removed => removed.map(|()| false).map_err(failed),
        },
        Task::Take => {
            let now = crate::host::stat_at(&dir, name).map_err(failed)?;
            let taken = now.map_or(Ok(()), |now| place::take(&dir, name, temp, &now.stamp));
            taken.map(|()| false).map_err(failed)
        }
        Task::MakeDir(look) => {
            place::make_dir(&dir, temp, name, &look).map(|()| false).map_err(failed)
        }
        Task::Link(link, look) => {
            let made = place::link_temp(&dir, temp, link.as_os_str(), &look);
            made.map(|()| true).map_err(failed)
        }
        Task::Rewrite(file, text, look) => rewrite(target, &file, temp, &text, &look)
            .map(|()| false)
            .map_err(|error| ApplyError::at(&file, error)),
        Task::File(mut content, digest, look) => {
            let written =
                place::write_temp(&dir, temp, &mut content, &look, sync).map_err(failed)?;
            if Some(written) != digest {
                return Err(ApplyError::Changed { path: path.as_path().to_path_buf() });
            }
            Ok(true)
        }
    }
}

/// Replaces a file by another content, whatever a killed try left beside it.
fn rewrite(
    target: &Target<'_>,
    file: &RelPath,
    temp: &OsStr,
    text: &[u8],
    look: &Look,
) -> io::Result<()> {
    let (dir, name) = target.host.parent(file)?;
    match sys::unlinkat(&dir, temp, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let now = crate::host::stat_at(&dir, name)?.map(|found| found.stamp);
    place::write_temp(&dir, temp, &mut { text }, look, place::Sync::Each)?;
    place::put(&dir, temp, name, now.as_ref())
}

fn remove_dir(dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match sys::unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Puts what was prepared in place, if the host still is what the step expects.
fn put<D: Direction>(journal: &Journal, at: usize, target: &Target<'_>) -> Result<(), ApplyError> {
    let path = &journal.steps[at].path;
    let failed = |error: io::Error| ApplyError::at(path, error);
    let (dir, name) = target.host.parent(path).map_err(failed)?;
    task::<D>(journal, at, target, &dir).map(drop)?;
    let now = crate::host::stat_at(&dir, name).map_err(failed)?.map(|found| found.stamp);
    let temp = journal.temp(at, D::MARK);
    place::put(&dir, OsStr::new(&temp), name, now.as_ref()).map_err(failed)
}
