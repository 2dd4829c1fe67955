//! Clean-up of files that an interrupted step left beside its path: they are removed or moved back.

use std::ffi::OsStr;

use rustix::fs::{self as sys, AtFlags, RenameFlags};
use rustix::io::Errno;

use super::journal::Journal;
use super::{ApplyError, Target, unit, write};
use crate::RelPath;
use crate::host::{self, HostTree, Kind};

/// Brings every path of a root to one of its two states and removes prepared files.
pub(crate) fn tidy_root(journal: &Journal, target: &Target<'_>) -> Result<(), ApplyError> {
    let mut steps = journal.steps.iter().enumerate().filter(|(_, step)| step.root == target.number);
    steps.try_for_each(|(at, _)| tidy(journal, at, target))
}

/// Brings a path to one of its two states and removes its prepared file.
pub(super) fn tidy(journal: &Journal, at: usize, target: &Target<'_>) -> Result<(), ApplyError> {
    let (step, host) = (&journal.steps[at], target.host);
    let (before, after) = (step.before.as_ref(), step.after.as_ref());
    // At the path itself, git may have refreshed the index since.
    let is_before = |path: &RelPath| {
        if *path == step.path {
            unit::is_before(journal, at, target)
        } else {
            write::is_before(host, path, before)
        }
    };
    let is_after = |path: &RelPath| {
        if *path == step.path {
            unit::is_after(journal, at, target)
        } else {
            write::is_after(host, path, after)
        }
    };
    let (forth, back) = (journal.temp(at, ""), journal.temp(at, "u"));
    let operation = |takes: bool, puts: bool| match (takes, puts) {
        (true, true) => Operation::Exchange,
        (true, false) => Operation::Take,
        (false, _) => Operation::Put,
    };
    let (was, will) = (before.is_some(), after.is_some());
    let forth = Beside {
        temp: &forth,
        operation: operation(was, will),
        is_new: &is_after,
        is_old: &is_before,
    };
    let back = Beside {
        temp: &back,
        operation: operation(will, was),
        is_new: &is_before,
        is_old: &is_after,
    };
    forth.tidy(host, &step.path)?;
    back.tidy(host, &step.path)
}

/// Use of the temporary name beside a step's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// Prepares a file there and moves it to a free path.
    Put,
    /// Prepares a file there and exchanges it with the entry at the path.
    Exchange,
    /// Moves the entry at the path there.
    Take,
}

type Test<'t> = &'t dyn Fn(&RelPath) -> Result<bool, ApplyError>;

/// Temporary name beside a path, with tests for the file there.
struct Beside<'t> {
    temp: &'t str,
    operation: Operation,
    /// Tests if a path is the entry that the step puts in place.
    is_new: Test<'t>,
    /// Tests if a path is the entry that the step replaces.
    is_old: Test<'t>,
}

impl Beside<'_> {
    fn tidy(&self, host: &HostTree, path: &RelPath) -> Result<(), ApplyError> {
        let failed = |error| ApplyError::at(path, error);
        let Some(beside) = RelPath::new(path.as_path().with_file_name(self.temp)) else {
            return Ok(());
        };
        let Some(found) = host.stat(&beside).map_err(failed)? else { return Ok(()) };
        let (dir, name) = host.parent(path).map_err(failed)?;
        let (temp, errno) = (OsStr::new(self.temp), |error: Errno| failed(error.into()));
        let came_out = match self.operation {
            Operation::Put => false,
            Operation::Exchange => (self.is_new)(path)?,
            Operation::Take => true,
        };
        // The replaced file is not the one in the journal: another process wrote it just before. Move it back.
        if came_out && !(self.is_old)(&beside)? {
            let there = host::stat_at(&dir, name).map_err(failed)?.is_some();
            let flags = match (self.operation, there) {
                (Operation::Exchange, true) => RenameFlags::EXCHANGE,
                (_, false) => RenameFlags::NOREPLACE,
                _ => return Err(ApplyError::Raced { path: beside.as_path().to_path_buf() }),
            };
            sys::renameat_with(&dir, temp, &dir, name, flags).map_err(errno)?;
            if flags == RenameFlags::NOREPLACE {
                return Ok(());
            }
        }
        let flags = if found.kind == Kind::Dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        sys::unlinkat(&dir, temp, flags).map_err(errno)
    }
}
