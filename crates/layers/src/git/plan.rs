//! Steps of an apply for one repository: all requested changes or none.
//!
//! The order keeps the host's repository valid after every step: first the objects in one pack that git has checked,
//! then refs and their logs, then `HEAD`, then the index.

mod steps;
mod symbolic;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sandbox_git::changes::{Checkout, Held, HostChange, RefChange};
use sandbox_git::refs::{NO_OBJECT, RefValue};
use sandbox_git::scratch::{Pack, ScratchError, ScratchGit};

use super::repository::{InspectError, Repository};
use crate::RelPath;
use crate::apply::{ApplyError, Goal, Left, Plan, Step, Target, original};
use crate::diff::View;
use steps::Maker;

const LOCKS: [&str; 3] = ["index.lock", "HEAD.lock", "packed-refs.lock"];

impl Repository {
    /// Plans to apply the selected changes (`meant`) of the repository. `names` returns true for a path that was named,
    /// whose held-back changes are applied too.
    pub fn plan(
        &self,
        git: &ScratchGit,
        target: &Target<'_>,
        names: &dyn Fn(&RelPath) -> bool,
        meant: &dyn Fn(&RelPath) -> bool,
    ) -> Result<Plan, ApplyError> {
        let mut taker = Taker { repository: self, target, names, meant, plan: Plan::default() };
        if let Some(why) = &self.changes.refused {
            taker.refuse(Path::new(""), why.clone());
        } else if self.gone.is_empty() {
            taker.decide(git)?;
        } else {
            taker.remove()?;
        }
        Ok(taker.plan)
    }
}

struct Taker<'t> {
    repository: &'t Repository,
    target: &'t Target<'t>,
    names: &'t dyn Fn(&RelPath) -> bool,
    meant: &'t dyn Fn(&RelPath) -> bool,
    plan: Plan,
}

/// Parts of a repository that are applied.
#[derive(Default)]
struct Taken<'t> {
    refs: Vec<&'t RefChange>,
    checkouts: Vec<(&'t Checkout, bool, bool)>,
}

impl<'t> Taker<'t> {
    fn left(&self, inner: &Path, why: impl Into<String>) -> Option<Left> {
        let path = self.repository.path(inner).or_else(|| self.repository.path("HEAD"))?;
        Some(Left { root: self.target.number, path, why: why.into() })
    }

    fn refuse(&mut self, inner: &Path, why: impl Into<String>) {
        let left = self.left(inner, why);
        self.plan.refused.extend(left);
    }

    fn hold(&mut self, inner: &Path, held: &[Held]) {
        let Some(first) = held.first() else { return };
        let more = held.len() - 1;
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let left = self.left(inner, first.describe() + &more);
        self.plan.held.extend(left);
    }

    fn note(&mut self, inner: &Path, why: impl Into<String>) {
        let left = self.left(inner, why);
        self.plan.notes.extend(left);
    }

    fn conflict(&mut self, inner: &Path, why: impl Into<String>) {
        let left = self.left(inner, why);
        self.plan.conflicts.extend(left);
    }

    /// Returns true when the user named a path in the repository, or the repository itself.
    fn named(&self, inner: impl AsRef<Path>) -> bool {
        let is = |path: Option<RelPath>| path.is_some_and(|path| (self.names)(&path));
        is(self.repository.path(inner)) || is(self.repository.path(""))
    }

    /// Returns true when a path in the repository is to be applied. A new repository is applied whole.
    fn is_meant(&self, inner: impl AsRef<Path>) -> bool {
        let path = self.repository.path(inner);
        self.repository.is_new || path.is_none_or(|path| (self.meant)(&path))
    }

    fn decide(&mut self, git: &ScratchGit) -> Result<(), ApplyError> {
        let repository = self.repository;
        for (inner, why) in &repository.changes.invalid {
            if self.is_meant(inner) {
                self.refuse(inner, why.clone());
            }
        }
        let mut taken = Taken::default();
        let mut waiting = BTreeSet::new();
        for change in &repository.changes.refs {
            let inner = Path::new(&change.name);
            if !self.is_meant(inner) {
                waiting.insert(change.name.as_str());
                continue;
            }
            if let Some(why) = &change.refused {
                self.refuse(inner, why.clone());
                waiting.insert(change.name.as_str());
            } else if !change.held.is_empty() && !self.named(inner) {
                self.hold(inner, &change.held);
                waiting.insert(change.name.as_str());
            } else if change.host == HostChange::Changed {
                self.conflict(inner, clash(change));
                waiting.insert(change.name.as_str());
            } else {
                taken.refs.push(change);
            }
        }
        self.leave_dangling(&mut taken, &mut waiting)?;
        for checkout in &repository.changes.checkouts {
            if !self.is_checkout_meant(checkout) {
                continue;
            }
            let (head, index) = self.checkout(checkout, &waiting);
            taken.checkouts.push((checkout, head, index));
        }
        let main_head = taken
            .checkouts
            .iter()
            .any(|(checkout, head, _)| *head && checkout.prefix.as_os_str().is_empty());
        let has_head = main_head || taken.refs.iter().any(|change| change.name == "HEAD");
        if repository.is_new && !has_head {
            if !taken.refs.is_empty() {
                self.note(Path::new("HEAD"), "a new repository is applied only with its `HEAD`");
            }
            return Ok(());
        }
        if self.is_free(&taken)? {
            self.make(git, &taken)?;
        }
        Ok(())
    }

    /// Returns true when `HEAD` or the index of a checkout is to be applied, or the branch that it is on.
    fn is_checkout_meant(&self, checkout: &Checkout) -> bool {
        let branch =
            matches!(&checkout.in_session, Some(RefValue::Symbolic(name)) if self.is_meant(name));
        branch || ["HEAD", "index"].iter().any(|name| self.is_meant(checkout.prefix.join(name)))
    }

    /// Decides whether `HEAD` and the index of a checkout are applied.
    fn checkout(&mut self, checkout: &Checkout, waiting: &BTreeSet<&str>) -> (bool, bool) {
        let head = checkout.prefix.join("HEAD");
        let index = checkout.prefix.join("index");
        let detached = head.to_str().filter(|name| waiting.contains(name));
        let branch = match &checkout.in_session {
            Some(RefValue::Symbolic(name)) => waiting.get(name.as_str()).copied(),
            _ => None,
        };
        if let Some(name) = branch.or(detached) {
            let why = format!("unchanged until `{name}` is applied");
            if checkout.head.is_some() {
                self.note(&head, why.clone());
            }
            if checkout.index.is_some() {
                self.note(&index, why);
            }
            return (false, false);
        }
        let mut takes_head = false;
        if let Some(change) = &checkout.head {
            if change.moved {
                self.conflict(&head, "also changed on the host");
                return (false, false);
            }
            takes_head = true;
        }
        let Some(change) = &checkout.index else { return (takes_head, false) };
        let on_branch =
            matches!(&checkout.in_session, Some(RefValue::Symbolic(name)) if self.named(name));
        if let Some(why) = &change.stays {
            self.note(
                &index,
                format!("keeps the host's version, because {why}; update it with `git reset`"),
            );
        } else if change.staged {
            self.note(&index, "keeps the host's version; update it with `git reset`");
        } else if !change.held.is_empty() && !self.named(&index) && !on_branch {
            self.hold(&index, &change.held);
        } else {
            return (takes_head, true);
        }
        (takes_head, false)
    }

    /// Returns true when no git process on the host is using the repository.
    fn is_free(&mut self, taken: &Taken<'_>) -> Result<bool, ApplyError> {
        let locks = LOCKS.map(PathBuf::from).into_iter();
        let refs = taken.refs.iter().map(|change| PathBuf::from(format!("{}.lock", change.name)));
        for lock in locks.chain(refs) {
            let Some(path) = self.repository.path(&lock) else { continue };
            let found = self.target.host.stat(&path);
            if found.map_err(|error| ApplyError::at(&path, error))?.is_some() {
                self.conflict(&lock, "git is running on the host, or was killed");
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn make(&mut self, git: &ScratchGit, taken: &Taken<'t>) -> Result<(), ApplyError> {
        let moves = taken.checkouts.iter().any(|(_, head, index)| *head || *index);
        if taken.refs.is_empty() && !moves {
            return Ok(());
        }
        let view =
            View { layer: self.target.layer, host: self.target.host, record: self.target.record };
        let (pack, host) = match pack(git, &view, self.repository, taken) {
            Err(InspectError::Diff(error)) => return Err(error.into()),
            Err(InspectError::Git(ScratchError::Write { path, source })) => {
                return Err(ApplyError::Host { path, source });
            }
            Err(InspectError::Git(error)) => {
                self.refuse(Path::new(""), self.repository.refusal(&error));
                return Ok(());
            }
            Ok(made) => made,
        };
        let mut maker = Maker {
            taker: self,
            host,
            steps: Vec::new(),
            dirs: BTreeSet::new(),
            gone: BTreeSet::new(),
        };
        let clash = maker.all(pack, taken)?;
        let steps = std::mem::take(&mut maker.steps);
        if let Some((inner, why)) = clash {
            self.plan.made.clear();
            self.plan.copies.clear();
            self.conflict(&inner, why);
        } else {
            self.plan.steps = steps;
        }
        Ok(())
    }

    /// Removes a repository that the session removed. Removes `HEAD` first, because a directory without it is not a
    /// repository.
    fn remove(&mut self) -> Result<(), ApplyError> {
        if !self.named("") {
            let why = "the session removed the repository, with every commit in it";
            let left = self.left(Path::new(""), why);
            self.plan.held.extend(left);
            return Ok(());
        }
        if let Some(change) = self.repository.gone.iter().find(|change| change.meanwhile) {
            let why = "also changed on the host".to_owned();
            let path = change.path.clone();
            self.plan.conflicts.push(Left { root: self.target.number, path, why });
            return Ok(());
        }
        let head = self.repository.path("HEAD");
        let (first, rest): (Vec<_>, Vec<_>) = self
            .repository
            .gone
            .iter()
            .rev()
            .partition(|change| Some(&change.path) == head.as_ref());
        for change in first.into_iter().chain(rest) {
            let Some(before) = original(self.target.host, &change.path)? else { continue };
            self.plan.steps.push(self.step(change.path.clone(), Some(before), None)?);
        }
        Ok(())
    }

    fn step(
        &self,
        path: RelPath,
        before: Option<crate::apply::Original>,
        after: Option<Goal>,
    ) -> Result<Step, ApplyError> {
        let origin = self.target.record.origin(&path)?;
        Ok(Step { root: self.target.number, path, before, after, mode: None, origin })
    }
}

fn clash(change: &RefChange) -> String {
    let shown = |value: &Option<RefValue>| {
        value.as_ref().map_or_else(|| "nothing".to_owned(), |value| value.short().to_owned())
    };
    let (host, session) = (shown(&change.before), shown(&change.after));
    format!("also changed on the host: the host has {host}, the session {session}")
}

/// Packs the objects that the host lacks. Git checks that nothing is missing or broken. Returns the host's refs too.
fn pack(
    git: &ScratchGit,
    view: &View<'_>,
    repository: &Repository,
    taken: &Taken<'_>,
) -> Result<(Option<Pack>, BTreeMap<String, RefValue>), InspectError> {
    let from = repository.scratch(git, view)?;
    let to = repository.scratch_of_host(git, view)?;
    let pack = from.pack_into(&to, &tips(taken))?;
    Ok((pack, to.into_refs()))
}

/// Returns every object that the applied changes name.
fn tips(taken: &Taken<'_>) -> BTreeSet<String> {
    let refs = taken.refs.iter().filter_map(|change| change.after.as_ref().and_then(RefValue::id));
    let mut tips: BTreeSet<String> = refs.map(str::to_owned).collect();
    for change in &taken.refs {
        for (line, id) in change.stashes() {
            // Git checks both objects of each line.
            let old = String::from_utf8_lossy(&line[..NO_OBJECT.len()]).into_owned();
            tips.extend([old, id].into_iter().filter(|id| id != NO_OBJECT));
        }
    }
    for (checkout, _, index) in &taken.checkouts {
        let Some(change) = checkout.index.as_ref().filter(|_| *index) else { continue };
        let differs = change.session.differs(&change.host);
        let blobs = differs.iter().filter_map(|(_, entry)| *entry);
        tips.extend(blobs.filter(|entry| !entry.is_submodule()).map(|entry| entry.id.clone()));
    }
    tips
}
