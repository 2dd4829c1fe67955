//! Deciding about one root: change by change, then the directories around them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Component, Path};

use super::expected::Expected;
use super::merge::{Clash, merge};
use super::place;
use super::plan::{Left, Made, Plan, Wish};
use super::step::{Goal, Source, Step, Was};
use super::{ApplyError, Target};
use crate::RelPath;
use crate::diff::{Change, Content, Digest, MAX_TEXT, Odd, Origin, Side, View};
use crate::host::{Kind, is_out_of_reach};

pub(super) struct Planner<'p> {
    target: &'p Target<'p>,
    wish: &'p Wish,
    later: &'p dyn Fn(&RelPath) -> Option<String>,
    plan: Plan,
    steps: BTreeMap<RelPath, Vec<Step>>,
    stays: Vec<Left>,
}

impl<'p> Planner<'p> {
    pub(super) fn new(
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

    pub(super) fn refuse(&mut self, change: &Change, why: impl Into<String>) {
        let left = self.left(change, why);
        self.plan.refused.push(left);
    }

    fn conflict(&mut self, change: &Change, why: impl Into<String>) {
        let left = self.left(change, why);
        self.plan.conflicts.push(left);
    }

    pub(super) fn change(&mut self, change: &Change) -> Result<(), ApplyError> {
        if change.after == Some(Side::Special) {
            self.refuse(change, "a FIFO, a socket or a device is never applied");
            return Ok(());
        }
        if change.before == Some(Side::Special) {
            self.refuse(change, "the host has a FIFO, a socket or a device there");
            return Ok(());
        }
        if let Some(why) = self.held(change) {
            let left = self.left(change, why);
            self.plan.held.push(left);
            return Ok(());
        }
        if change.meanwhile
            && is_git_index(&change.path)
            && !self.wish.names(&change.path, |_| false)
        {
            let why = "stays as the host's git has it; `git reset` brings it up to date";
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
                self.conflict(change, "the host removed it meanwhile; named, it is made again");
                Ok(())
            }
            false if change.meanwhile => self.merge(change),
            false => self.take(change, Expected::Origin),
        }
    }

    /// Whether the host had something at a path when the session began, and has nothing there now.
    fn is_lost(&self, change: &Change) -> Result<bool, ApplyError> {
        let comes = change.meanwhile && change.after.is_some();
        let there = || self.target.host.stat(&change.path);
        Ok(comes && there().map_err(|error| ApplyError::at(&change.path, error))?.is_none())
    }

    /// Why a change waits until it is named.
    fn held(&self, change: &Change) -> Option<String> {
        // A directory runs nothing. What goes may have held something back, and counts.
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
                Odd::HardLinks => {
                    "one of several names of a file: lands as a file of its own".into()
                }
                Odd::Xattrs(names) => {
                    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
                    format!("extended attributes are dropped: {}", names.join(", "))
                }
            };
            let left = self.left(change, why);
            self.plan.notes.push(left);
        }
    }

    /// The host is as it was: the layer's content is taken.
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
        // Before it is read: a file full of holes may claim any length.
        if size > self.target.free {
            self.refuse(change, format!("{size} bytes are more than the free space"));
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

    /// The host changed since the layer was made from it: both changes, or neither.
    fn merge(&mut self, change: &Change) -> Result<(), ApplyError> {
        let (Some(Side::File { executable: was, .. }), Some(Side::File { executable, .. })) =
            (&change.before, &change.after)
        else {
            self.conflict(change, "the host changed it meanwhile");
            return Ok(());
        };
        let Some((merged, host)) = self.three_way(change)? else { return Ok(()) };
        let executable = self.wish.chosen.get(&change.path).map_or(*executable, |it| it.executable);
        // Whoever changed the bit since has the say.
        let executable = if *was == executable { host.executable } else { executable };
        let goal = self.made(change, merged, executable);
        let left = self.left(change, "merged with what the host changed meanwhile");
        self.plan.notes.push(left);
        self.push(change, Some(goal), Expected::Content(Digest::of(&host.text)))
    }

    /// The merged text, and the host's that went into it.
    fn three_way(&mut self, change: &Change) -> Result<Option<(Made, OnHost)>, ApplyError> {
        let Some(ancestor) = self.target.record.ancestor(&change.path)? else {
            self.conflict(change, "the host changed it meanwhile, and what it was is not known");
            return Ok(None);
        };
        let view =
            View { layer: self.target.layer, host: self.target.host, record: self.target.record };
        let layer = match self.wish.chosen.get(&change.path) {
            Some(chosen) => Some(Content::of(chosen.bytes.clone())),
            None => view.after(change, MAX_TEXT)?,
        };
        let host = self.host_text(change)?;
        let (Some(Content::Text(layer)), Some((Content::Text(host), executable))) = (layer, host)
        else {
            self.conflict(change, "the host changed it meanwhile, and it is no text to merge");
            return Ok(None);
        };
        match merge(&ancestor, &host, &layer) {
            Ok(bytes) => {
                let host = OnHost { text: host, executable };
                Ok(Some((Made { bytes, ancestor: layer }, host)))
            }
            Err(clashes) => {
                self.conflict(change, clash_text(&clashes));
                Ok(None)
            }
        }
    }

    fn host_text(&self, change: &Change) -> Result<Option<(Content, bool)>, ApplyError> {
        let Ok((file, found)) = self.target.host.open_file(&change.path) else { return Ok(None) };
        if found.stamp.size > MAX_TEXT {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(MAX_TEXT + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| ApplyError::at(&change.path, error))?;
        Ok(Some((Content::of(bytes), found.is_executable())))
    }

    /// Adds the step, or the two steps where a directory comes or goes. What is on the host now is
    /// looked at once more: it is replaced only if it is what the decision was about.
    fn push(
        &mut self,
        change: &Change,
        goal: Option<Goal>,
        expected: Expected,
    ) -> Result<(), ApplyError> {
        let before = match place::was(self.target.host, &change.path) {
            Err(ApplyError::Host { source, .. }) if is_out_of_reach(&source) => {
                self.refuse(change, "the host's file cannot be read, so it could not be put back");
                return Ok(());
            }
            before => before?,
        };
        let origin = self.target.record.origin(&change.path)?;
        if !expected.is(before.as_ref(), &origin) {
            self.conflict(change, "the host changed it at this moment");
            return Ok(());
        }
        self.note_links(change, before.as_ref(), goal.as_ref());
        if origin == Origin::Perhaps && before.is_none() && goal != Some(Goal::Dir) {
            let why = "its directory changed on the host meanwhile: if it was removed there, it is made again";
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

    /// A file that is replaced is one of its own afterwards. Writing into it would change its other
    /// names too, which may lie outside of the tree: in a package store, or in a backup.
    fn note_links(&mut self, change: &Change, before: Option<&Was>, goal: Option<&Goal>) {
        let Some(was) = before.filter(|was| was.kind == Kind::File && was.links > 1) else {
            return;
        };
        if matches!(goal, Some(Goal::File { .. })) {
            let others = was.links - 1;
            let names = if others == 1 { "name keeps" } else { "names keep" };
            let why = format!(
                "is hard-linked on the host: its {others} other {names} the old content, and the link ends"
            );
            let left = self.left(change, why);
            self.plan.notes.push(left);
        }
    }

    /// Every new file needs its directory. One that the layer made comes along; one that the host
    /// lost meanwhile is made again for a file that is named, and else is a conflict, like one that
    /// the host has as something else.
    pub(super) fn parents(
        &mut self,
        changes: &BTreeMap<&RelPath, &Change>,
    ) -> Result<(), ApplyError> {
        let makes = |steps: &Vec<Step>| steps.iter().any(|step| step.after.is_some());
        let comes: Vec<RelPath> = self
            .steps
            .iter()
            .filter(|(_, steps)| makes(steps))
            .map(|(path, _)| path.clone())
            .collect();
        // Directories that are there or will be: in a deep tree each is asked about once.
        let mut ready = BTreeSet::new();
        for path in comes {
            let above = path.as_path().ancestors().skip(1);
            let above = above.take_while(|dir| !ready.contains(*dir)).filter_map(RelPath::new);
            for dir in above.collect::<Vec<_>>().into_iter().rev() {
                if let Some(why) = self.lacks(&dir, &path, changes)? {
                    self.steps.remove(&path);
                    self.plan.conflicts.push(Left { root: self.target.number, path, why });
                    break;
                }
                ready.insert(dir.as_path().to_path_buf());
            }
        }
        Ok(())
    }

    /// Why a path's directory is not there and will not be; nothing if it is or will be.
    fn lacks(
        &mut self,
        dir: &RelPath,
        path: &RelPath,
        changes: &BTreeMap<&RelPath, &Change>,
    ) -> Result<Option<String>, ApplyError> {
        let shown = dir.as_path().display();
        let no_dir = || Some(format!("`{shown}` is not a directory on the host"));
        if let Some(steps) = self.steps.get(dir) {
            let made = steps.iter().any(|step| step.after == Some(Goal::Dir));
            return Ok(if made { None } else { no_dir() });
        }
        let there = self.target.host.stat(dir).map_err(|error| ApplyError::at(dir, error))?;
        let change = changes.get(dir).filter(|change| change.after == Some(Side::Dir));
        match (there, change) {
            (Some(found), _) if found.kind == Kind::Dir => return Ok(None),
            (Some(_), _) => return Ok(no_dir()),
            (None, Some(change)) if !change.meanwhile => {
                self.push(change, Some(Goal::Dir), Expected::Nothing)?;
            }
            // A file of the layer has directories of the layer above it.
            (None, _) if self.wish.names(path, |_| true) => {
                let (path, after, odd) = (dir.clone(), Some(Side::Dir), Vec::new());
                let again = Change { path, before: None, after, meanwhile: true, mode: None, odd };
                self.push(&again, Some(Goal::Dir), Expected::Nothing)?;
            }
            (None, _) => {
                let why = "the host removed its directory";
                return Ok(Some(format!("{why} `{shown}` meanwhile; named, it is made again")));
            }
        }
        Ok(if self.steps.contains_key(dir) { None } else { no_dir() })
    }

    /// A directory stays when something in it stays.
    pub(super) fn keep_full_dirs(&mut self, changes: &BTreeMap<&RelPath, &Change>) {
        let going = |steps: &BTreeMap<RelPath, Vec<Step>>, path: &RelPath| {
            steps.get(path).is_some_and(|steps| steps[0].is_removal())
        };
        let stays: Vec<RelPath> = changes
            .values()
            .filter(|change| change.before.is_some() && !going(&self.steps, &change.path))
            .filter(|change| !self.wish.gone.contains(&change.path))
            .map(|change| change.path.clone())
            .collect();
        for path in stays {
            for dir in path.as_path().ancestors().skip(1).filter_map(RelPath::new) {
                if !going(&self.steps, &dir) {
                    continue;
                }
                let replaced = self.steps.remove(&dir).is_some_and(|steps| steps.len() > 1);
                let why = format!("`{}` in it stays", path.as_path().display());
                let left = Left { root: self.target.number, path: dir, why };
                if replaced { self.plan.conflicts.push(left) } else { self.stays.push(left) }
            }
        }
    }

    pub(super) fn finish(mut self) -> Plan {
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

/// A text on the host that was merged with.
struct OnHost {
    text: Vec<u8>,
    executable: bool,
}

fn clash_text(clashes: &[Clash]) -> String {
    let lines: Vec<_> = clashes.iter().take(5).map(|clash| clash.line.to_string()).collect();
    let more = if clashes.len() > 5 { " and more" } else { "" };
    format!("the host changed the same lines meanwhile: around line {}{more}", lines.join(", "))
}

/// Whether this is git's own list of what it saw. The host's `git status`, and every editor that
/// asks for it, writes it anew: that is no reason to hold back all the rest.
fn is_git_index(path: &RelPath) -> bool {
    path.as_path().ends_with("index") && path.as_path().iter().any(|name| name == ".git")
}

/// Whether a link leads out of the tree, as far as its text says.
pub(crate) fn leads_out(link: &RelPath, target: &Path, root: &Path) -> bool {
    if target.is_absolute() {
        return !target.starts_with(root)
            || target.components().any(|part| part == Component::ParentDir);
    }
    let mut depth = link.as_path().components().count() - 1;
    for part in target.components() {
        match part {
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_out_when_its_text_does() {
        for (link, target, out) in [
            ("a", "b", false),
            ("a", "../b", true),
            ("d/a", "../b", false),
            ("d/a", "../../b", true),
            ("a", "/etc/passwd", true),
            ("a", "/root/tree/x", false),
            ("a", "/root/tree/../x", true),
            ("a", "b/../../c", true),
            ("a", "", false),
        ] {
            let path = RelPath::new(link).unwrap();
            let root = Path::new("/root/tree");
            assert_eq!(leads_out(&path, Path::new(target), root), out, "{link} -> {target}");
        }
    }
}
