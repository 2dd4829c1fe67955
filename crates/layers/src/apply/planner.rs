//! Planning of one root: each change, then the directories around them.

mod merge;
mod directories;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

use sandbox_git::layout::is_index;

use super::expected::Expected;
use super::link::leads_out;
use super::plan::{Left, Made, Plan, Wish};
use super::step::{Goal, Original, Source, Step};
use super::write;
use super::{ApplyError, Target};
use crate::RelPath;
use crate::diff::{Change, Digest, Odd, Origin, Side};
use crate::host::{Kind, is_out_of_reach};

/// Plans one root.
///
/// # Errors
/// Fails only if the layer or the host cannot be read. Changes that cannot be applied are part of the plan.
pub fn plan(
    target: &Target<'_>,
    changes: &[Change],
    truncated: bool,
    wish: &Wish,
    later: &dyn Fn(&RelPath) -> Option<String>,
) -> Result<Plan, ApplyError> {
    let mut planner = Planner::new(target, wish, later);
    let by_path: BTreeMap<&RelPath, &Change> =
        changes.iter().map(|change| (&change.path, change)).collect();
    let is_meant =
        |change: &&Change| wish.selects(&change.path) && !wish.apart.contains(&change.path);
    for change in changes.iter().filter(is_meant) {
        if truncated && change.after.is_none() {
            planner.refuse(change, "too many deleted files to list");
            continue;
        }
        planner.change(change)?;
    }
    planner.parents(&by_path)?;
    planner.keep_full_dirs(&by_path);
    Ok(planner.finish())
}

/// State of the planning of one root.
struct Planner<'p> {
    target: &'p Target<'p>,
    wish: &'p Wish,
    later: &'p dyn Fn(&RelPath) -> Option<String>,
    plan: Plan,
    steps: BTreeMap<RelPath, Vec<Step>>,
    stays: Vec<Left>,
}

impl<'p> Planner<'p> {
    fn new(
        target: &'p Target<'p>,
        wish: &'p Wish,
        later: &'p dyn Fn(&RelPath) -> Option<String>,
    ) -> Self {
        let (plan, steps, stays) = (Plan::default(), BTreeMap::new(), Vec::new());
        Self { target, wish, later, plan, steps, stays }
    }

    fn left(&self, change: &Change, why: impl Into<String>) -> Left {
        Left { root: self.target.number, path: change.path.clone(), why: why.into() }
    }

    fn refuse(&mut self, change: &Change, why: impl Into<String>) {
        let left = self.left(change, why);
        self.plan.refused.push(left);
    }

    fn conflict(&mut self, change: &Change, why: impl Into<String>) {
        let left = self.left(change, why);
        self.plan.conflicts.push(left);
    }

    fn change(&mut self, change: &Change) -> Result<(), ApplyError> {
        if change.after == Some(Side::Special) {
            self.refuse(change, "FIFOs, sockets and devices are never applied");
            return Ok(());
        }
        if change.before == Some(Side::Special) {
            self.refuse(change, "the host has a FIFO, a socket or a device at this path");
            return Ok(());
        }
        if let Some(why) = self.held(change) {
            let left = self.left(change, why);
            self.plan.held.push(left);
            return Ok(());
        }
        if change.meanwhile
            && is_index(change.path.as_path())
            && !self.wish.names(&change.path, |_| false)
        {
            let why = "keeps the host's version; update it with `git reset`";
            let left = self.left(change, why);
            self.stays.push(left);
            return Ok(());
        }
        self.note(change);
        match self.is_lost(change)? {
            true if self.wish.names(&change.path, |_| false) => {
                self.take(change, Expected::Nothing)
            }
            true => {
                self.conflict(change, "deleted on the host; name the path to recreate it");
                Ok(())
            }
            false if change.meanwhile => self.merge(change),
            false => self.take(change, Expected::Origin),
        }
    }

    /// Returns true when the host had an entry at a path when the session began, and has none now.
    fn is_lost(&self, change: &Change) -> Result<bool, ApplyError> {
        let comes = change.meanwhile && change.after.is_some();
        let there = || self.target.host.stat(&change.path);
        Ok(comes && there().map_err(|error| ApplyError::at(&change.path, error))?.is_none())
    }

    /// Returns the reason why a change is held back until it is named.
    fn held(&self, change: &Change) -> Option<String> {
        // Directories run nothing. Removals count, because the removed file may have prevented something.
        if change.is_of_directory() {
            return None;
        }
        let all_below = |top: &RelPath| {
            top.join(OsStr::new("x")).is_some_and(|below| (self.later)(&below).is_some())
        };
        if let Some(why) = (self.later)(&change.path)
            && !self.wish.names(&change.path, all_below)
        {
            return Some(why);
        }
        match &change.after {
            Some(Side::Symlink { target })
                if leads_out(&change.path, Path::new(target), self.target.host.path())
                    && !self.wish.names(&change.path, |_| false) =>
            {
                Some("a link that leads out of the tree".into())
            }
            _ => None,
        }
    }

    fn note(&mut self, change: &Change) {
        for odd in &change.odd {
            let why = match odd {
                Odd::SetId => "set-id bits are dropped".to_owned(),
                Odd::HardLinks => "hard link, applied as a separate file".into(),
                Odd::Xattrs(names) => {
                    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
                    format!("extended attributes are dropped: {}", names.join(", "))
                }
            };
            let left = self.left(change, why);
            self.plan.notes.push(left);
        }
    }

    /// Plans to apply the layer's content, because the host is unchanged.
    fn take(&mut self, change: &Change, expected: Expected) -> Result<(), ApplyError> {
        let goal = match &change.after {
            None => None,
            Some(Side::Dir) => Some(Goal::Dir),
            Some(Side::Symlink { target }) => Some(Goal::Symlink { target: target.clone().into() }),
            Some(Side::File { size, executable }) => match self.file(change, *size, *executable)? {
                None => return Ok(()),
                goal => goal,
            },
            Some(Side::Special) => return Ok(()),
        };
        self.push(change, goal, expected)
    }

    fn file(
        &mut self,
        change: &Change,
        size: u64,
        executable: bool,
    ) -> Result<Option<Goal>, ApplyError> {
        if let Some(chosen) = self.wish.chosen.get(&change.path) {
            let (bytes, executable) = (chosen.bytes.clone(), chosen.executable);
            let made = Made { ancestor: bytes.clone(), bytes };
            return Ok(Some(self.made(change, made, executable)));
        }
        // Checked before reading, because a sparse file can have any length.
        if size > self.target.free {
            self.refuse(change, format!("needs {size} bytes, more than the free space"));
            return Ok(None);
        }
        let digest = Digest::read(self.target.layer.open(&change.path)?);
        let digest = digest.map_err(|error| ApplyError::at(&change.path, error))?;
        Ok(Some(Goal::File { digest, size, executable, source: Source::Layer }))
    }

    fn made(&mut self, change: &Change, made: Made, executable: bool) -> Goal {
        let (digest, size) = (Digest::of(&made.bytes), made.bytes.len() as u64);
        self.plan.made.insert((self.target.number, change.path.clone()), made);
        Goal::File { digest, size, executable, source: Source::Journal }
    }

    /// Adds the step, or two steps when a directory replaces a file or the reverse. Checks the host again, because only
    /// the expected state may be replaced.
    fn push(
        &mut self,
        change: &Change,
        goal: Option<Goal>,
        expected: Expected,
    ) -> Result<(), ApplyError> {
        let before = match write::original(self.target.host, &change.path) {
            Err(ApplyError::Host { source, .. }) if is_out_of_reach(&source) => {
                self.refuse(
                    change,
                    "the host's file cannot be read, so an undo could not restore it",
                );
                return Ok(());
            }
            before => before?,
        };
        let origin = self.target.record.origin(&change.path)?;
        if !expected.is(before.as_ref(), &origin) {
            self.conflict(change, "changed on the host just now");
            return Ok(());
        }
        self.note_links(change, before.as_ref(), goal.as_ref());
        if origin == Origin::Perhaps && before.is_none() && goal != Some(Goal::Dir) {
            let why = "its directory changed on the host; if the file was deleted there, this recreates it";
            let left = self.left(change, why);
            self.plan.notes.push(left);
        }
        let step = |before, after| Step {
            root: self.target.number,
            path: change.path.clone(),
            before,
            after,
            origin: origin.clone(),
            mode: change.mode,
        };
        let is_dir = before.as_ref().is_some_and(|was| was.kind == Kind::Dir);
        let makes_dir = goal == Some(Goal::Dir);
        let steps = match (before, goal) {
            (None, None) => Vec::new(),
            (Some(_), Some(Goal::Dir)) if is_dir => Vec::new(),
            (Some(was), Some(goal)) if is_dir || makes_dir => {
                vec![step(Some(was), None), step(None, Some(goal))]
            }
            (before, after) => vec![step(before, after)],
        };
        if !steps.is_empty() {
            self.steps.insert(change.path.clone(), steps);
        }
        Ok(())
    }

    /// Notes that a replaced file loses its hard links. Writing into it would change its other names too, which may be
    /// outside the tree, for example in a package store or a backup.
    fn note_links(&mut self, change: &Change, before: Option<&Original>, goal: Option<&Goal>) {
        let Some(was) = before.filter(|was| was.kind == Kind::File && was.links > 1) else {
            return;
        };
        if matches!(goal, Some(Goal::File { .. })) {
            let others = was.links - 1;
            let names = if others == 1 { "name keeps" } else { "names keep" };
            let why = format!(
                "is hard-linked on the host; its {others} other {names} the old content, and the link is broken"
            );
            let left = self.left(change, why);
            self.plan.notes.push(left);
        }
    }

    fn finish(mut self) -> Plan {
        let (gone, come): (Vec<_>, Vec<_>) =
            self.steps.into_values().flatten().partition(Step::is_removal);
        self.plan.steps = gone.into_iter().rev().chain(come).collect();
        let kept: BTreeSet<_> = self.plan.steps.iter().map(|step| step.path.clone()).collect();
        self.plan.made.retain(|(_, path), _| kept.contains(path));
        self.plan.notes.retain(|note| kept.contains(&note.path));
        self.plan.notes.extend(self.stays);
        self.plan
    }
}
