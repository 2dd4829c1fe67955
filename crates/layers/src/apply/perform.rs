//! Execution of a journal's steps, from the start or from the point of an interruption.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs as sys;

use super::batch::{self, Direction};
use super::journal::{Journal, Status};
use super::step::{Goal, Source, Step};
use super::task::Task;
use super::write::Attributes;
use super::{ApplyError, Base, RecordOrigin, SaveBase, Target, undo, unit};
use crate::RelPath;
use crate::diff::{Digest, Origin, Past};
use crate::host::{HostEntry, HostTree, Kind, Stamp};

/// Maximum size of texts that are stored for merging.
const MAX_ANCESTOR: u64 = 1 << 20;

/// Callback after each step, with the number of completed steps and of all steps.
pub type Progress<'p> = &'p mut dyn FnMut(usize, usize);

/// Performs a journal. If a step fails, the steps before it are reverted.
///
/// The base is saved before the status says that the apply is done. After a kill in between, the next command completes
/// the apply and saves the base again.
pub fn perform(
    journal: &mut Journal,
    targets: &[Target<'_>],
    progress: Progress<'_>,
    save_base: SaveBase<'_>,
) -> Result<(), ApplyError> {
    match steps(journal, targets, progress) {
        Ok(()) => applied(journal, save_base),
        Err(source) => match undo::roll_back(journal, targets, save_base) {
            Ok(()) => Err(ApplyError::RolledBack { source: Box::new(source) }),
            Err(second) => {
                Err(ApplyError::HalfWay { source: Box::new(source), second: Box::new(second) })
            }
        },
    }
}

/// Completes an interrupted apply. Stops at a path that changed since.
pub fn resume(
    journal: &mut Journal,
    targets: &[Target<'_>],
    progress: Progress<'_>,
    save_base: SaveBase<'_>,
) -> Result<(), ApplyError> {
    steps(journal, targets, progress)?;
    applied(journal, save_base)
}

fn applied(journal: &mut Journal, save_base: SaveBase<'_>) -> Result<(), ApplyError> {
    save_base(journal, Base::New)?;
    journal.set(Status::Applied)
}

fn steps(
    journal: &Journal,
    targets: &[Target<'_>],
    progress: Progress<'_>,
) -> Result<(), ApplyError> {
    let order: Vec<usize> = (0..journal.steps.len()).collect();
    let mut count = 0;
    batch::run(&FORWARD, journal, &order, targets, &mut |at| {
        count += 1;
        progress(count, order.len());
        journal.mark(at)
    })?;
    batch::sync_dirs(&journal.steps, targets)
}

/// Direction of an apply.
const FORWARD: Direction = Direction {
    mark: "",
    is_ahead: |at, other| other >= at,
    is_at_start: unit::is_before,
    is_at_end: unit::is_after,
    task,
};

fn task(
    journal: &Journal,
    at: usize,
    target: &Target<'_>,
    dir: &OwnedFd,
) -> Result<Task, ApplyError> {
    let step = &journal.steps[at];
    let attributes = attributes(step, dir).map_err(|error| ApplyError::at(&step.path, error))?;
    let is_dir = step.before.as_ref().is_some_and(|was| was.kind == Kind::Dir);
    Ok(match &step.after {
        None if is_dir => Task::RemoveDir,
        None => Task::Take,
        Some(Goal::Dir) => Task::MakeDir(attributes),
        Some(Goal::Symlink { target }) => Task::Link(target.clone(), attributes),
        Some(Goal::File { digest, source, .. }) => {
            let content: Box<dyn Read + Send> = match source {
                Source::Layer => target.layer.open(&step.path)?,
                Source::Journal => Box::new(journal.made(at)?),
            };
            Task::File(content, Some(*digest), attributes)
        }
    })
}

/// Returns the attributes for a step. A replaced file keeps everything but its content and the executable bit. A new
/// one gets the owner of its directory and at most the permissions in the layer.
fn attributes(step: &Step, dir: &OwnedFd) -> io::Result<Attributes> {
    let executable = matches!(step.after, Some(Goal::File { executable: true, .. }));
    let replaced = step.before.as_ref().filter(|was| was.kind == Kind::File);
    if let Some(was) = replaced {
        let mode = was.mode & 0o777;
        let mode = if executable { mode | ((mode & 0o444) >> 2) } else { mode & !0o111 };
        let (owner, xattrs) = ((was.uid, was.gid), was.xattrs.clone());
        return Ok(Attributes {
            mode: Some(mode),
            limit: None,
            executable,
            owner,
            xattrs,
            mtime: None,
        });
    }
    let parent = HostEntry::from(sys::fstat(dir)?);
    let owner = (parent.uid, parent.gid);
    let (limit, xattrs) = (step.mode, Vec::new());
    Ok(Attributes { mode: None, limit, executable, owner, xattrs, mtime: None })
}

/// Records the base after an apply, so that applied changes no longer count as changes.
pub fn record_applied(
    journal: &Journal,
    root: usize,
    host: &HostTree,
    record: &mut dyn RecordOrigin,
) -> Result<(), ApplyError> {
    for (at, step) in journal.steps.iter().enumerate().filter(|(_, step)| step.root == root) {
        let (origin, ancestor) = new_origin(journal, at, host)?;
        record.set(&step.path, &origin, ancestor.as_deref())?;
    }
    Ok(())
}

fn new_origin(
    journal: &Journal,
    at: usize,
    host: &HostTree,
) -> Result<(Origin, Option<Vec<u8>>), ApplyError> {
    let step = &journal.steps[at];
    let failed = |error| ApplyError::at(&step.path, error);
    let stamp = host.stat(&step.path).map_err(failed)?.map(|found| found.stamp);
    let unseen = Stamp { ino: 0, size: 0, mtime: (0, 0), ctime: (0, 0) };
    let stamp = stamp.unwrap_or(unseen);
    let past =
        |kind, stamp, executable, digest| Origin::There(Past { kind, stamp, executable, digest });
    Ok(match &step.after {
        None => (Origin::Absent, None),
        Some(Goal::Dir) => (past(Kind::Dir, stamp, false, None), None),
        Some(Goal::Symlink { target }) => {
            (past(Kind::Symlink, stamp, false, Some(Digest::of(&target.0))), None)
        }
        Some(Goal::File { digest, size, executable, source: Source::Layer }) => {
            let text =
                if *size > MAX_ANCESTOR { None } else { text_of(host, &step.path, *digest)? };
            (past(Kind::File, stamp, *executable, Some(*digest)), text)
        }
        Some(Goal::File { digest, executable, source: Source::Journal, .. }) => {
            // The layer's version, not the merged text on the host: the rest is the host's change.
            let Some(theirs) = journal.theirs(at)? else {
                return Ok((past(Kind::File, stamp, *executable, Some(*digest)), None));
            };
            let now = Digest::of(&theirs);
            let stamp = if now == *digest { stamp } else { unseen };
            let stamp = Stamp { size: theirs.len() as u64, ..stamp };
            (past(Kind::File, stamp, *executable, Some(now)), Some(theirs))
        }
    })
}

fn text_of(host: &HostTree, path: &RelPath, digest: Digest) -> Result<Option<Vec<u8>>, ApplyError> {
    let failed = |error| ApplyError::at(path, error);
    let (file, _) = match host.open_file(path) {
        Err(error) if crate::host::is_absent(&error) => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_ANCESTOR + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes).filter(|bytes| Digest::of(bytes) == digest && !bytes.contains(&0)))
}
