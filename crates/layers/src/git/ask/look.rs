//! Inspection of a session's commits: which are new, and which files in them are held back.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::super::log::{self, Log, Raw};
use super::super::{Checkout, Held, Meanwhile, RefChange, Repository, Value};
use super::{GitError, Input, Judge, MAX_COMMITS, MAX_HELD, Scratch};
use crate::RelPath;
use crate::diff::View;

/// Inspects what a session changed in one repository.
pub(super) struct Looker<'l> {
    pub(super) scratch: &'l Scratch<'l>,
    pub(super) view: &'l View<'l>,
    pub(super) judge: &'l Judge<'l>,
}

impl Looker<'_> {
    pub(super) fn look(&self, repository: &mut Repository) -> Result<(), GitError> {
        let peeled = self.peel(&repository.refs)?;
        for change in &mut repository.refs {
            self.check(change, &peeled);
        }
        repository.refs.retain(|change| !self.is_contained(change));
        let tips = peeled.values().filter(|(_, kind)| kind == "commit").map(|(id, _)| id.as_str());
        let stashes: Vec<String> =
            repository.refs.iter().flat_map(RefChange::stashes).map(|(_, id)| id).collect();
        let known = self.scratch.types(stashes.iter().map(String::as_str))?;
        let mut tips: BTreeSet<&str> = tips.collect();
        tips.extend(known.keys().map(String::as_str));
        let input = self.scratch.revisions(tips.iter().copied());
        let most = format!("--max-count={}", MAX_COMMITS + 1);
        let count = self.scratch.git(&["rev-list", "--count", &most, "--stdin"], &input)?;
        let count: usize = String::from_utf8_lossy(&count).trim().parse().unwrap_or(0);
        let log = if tips.is_empty() || count == 0 || count > MAX_COMMITS {
            Log::default()
        } else {
            Log::parse(&self.scratch.git(&log::COMMAND, &input)?)
        };
        let held = self.held_commits(&log, repository)?;
        for change in &mut repository.refs {
            let tip = change.after.as_ref().and_then(Value::id).and_then(|id| peeled.get(id));
            let Some((tip, _)) = tip else { continue };
            if count > MAX_COMMITS {
                let why = format!("more than {MAX_COMMITS} new commits: not looked through");
                change.held.push(Held { commit: None, path: PathBuf::new(), why });
            }
            log.reach(tip, &held, change);
            let older: Vec<String> = change.stashes().into_iter().map(|(_, id)| id).collect();
            for id in &older {
                log.reach(id, &held, change);
            }
        }
        self.moved(repository, &peeled)?;
        let resolved = self.resolved(repository);
        let mut checkouts = std::mem::take(&mut repository.checkouts);
        for checkout in &mut checkouts {
            self.index(checkout, repository, &resolved)?;
        }
        repository.checkouts = checkouts;
        Ok(())
    }

    /// Resolves each new value to its object and the object's type.
    fn peel(&self, refs: &[RefChange]) -> Result<BTreeMap<String, (String, String)>, GitError> {
        let ids = refs.iter().filter_map(|change| change.after.as_ref().and_then(Value::id));
        let asked: Vec<String> = ids.map(|id| format!("{id}^{{}}")).collect();
        let types = self.scratch.types(asked.iter().map(String::as_str))?;
        let bare = |(asked, found): (String, _)| (asked.trim_end_matches("^{}").to_owned(), found);
        Ok(types.into_iter().map(bare).collect())
    }

    /// Checks that git would take a new value, and that the host's value may be replaced.
    fn check(&self, change: &mut RefChange, peeled: &BTreeMap<String, (String, String)>) {
        let hold = |change: &mut RefChange, why: &str| {
            change.held.push(Held { commit: None, path: PathBuf::new(), why: why.into() });
        };
        if let Some(id) = change.after.as_ref().and_then(Value::id) {
            match peeled.get(id).map(|(_, kind)| kind.as_str()) {
                None => change.refused = Some("its objects are not in the session".into()),
                Some("commit") => {}
                Some(_) if change.name.starts_with("refs/heads/") => {
                    change.refused = Some("a branch that names no commit".into());
                }
                Some(_) => hold(change, "names no commit"),
            }
        }
        if change.name.starts_with("refs/replace/") && change.after.is_some() {
            hold(change, "git shows another object in place of the one that it names");
        }
        if change.host == Meanwhile::Unknown {
            let (before, after) = (change.before.as_ref(), change.after.as_ref());
            let ids = (before.and_then(Value::id), after.and_then(Value::id));
            let forward = match ids {
                (Some(old), Some(new)) => self.is_ancestor(old, new),
                _ => before.is_none(),
            };
            change.host = if forward { Meanwhile::Same } else { Meanwhile::Changed };
        }
    }

    /// Returns true when the host moved a ref on from where the session has it, so that nothing is left to apply.
    fn is_contained(&self, change: &RefChange) -> bool {
        let ids =
            (change.before.as_ref().and_then(Value::id), change.after.as_ref().and_then(Value::id));
        change.host == Meanwhile::Changed
            && matches!(ids, (Some(host), Some(session)) if self.is_ancestor(session, host))
    }

    fn is_ancestor(&self, old: &str, new: &str) -> bool {
        let args = ["merge-base", "--is-ancestor", old, new];
        matches!(self.scratch.run(&args, Input::Bytes(&[])), Ok((Some(_), _)))
    }

    /// Commits that change files that run code later.
    fn held_commits(
        &self,
        log: &Log,
        repository: &Repository,
    ) -> Result<BTreeMap<String, Vec<Held>>, GitError> {
        let mut held = BTreeMap::new();
        for (id, raws) in &log.changes {
            let found = self.held(raws, Some(id), repository)?;
            if !found.is_empty() {
                held.insert(id.clone(), found);
            }
        }
        Ok(held)
    }

    /// The commit that the host has checked out.
    fn checked_out(&self) -> Option<&str> {
        match self.scratch.host.get("HEAD")? {
            Value::Id(id) => Some(id),
            Value::Symbolic(name) => self.scratch.host.get(name).and_then(Value::id),
        }
    }

    /// Refs whose tree changes in a held file, by whatever commits. A new ref with a merge is compared
    /// with what the host has checked out: a merge can bring an old file back from one of its parents.
    fn moved(
        &self,
        repository: &mut Repository,
        peeled: &BTreeMap<String, (String, String)>,
    ) -> Result<(), GitError> {
        let mut found = Vec::new();
        for (at, change) in repository.refs.iter().enumerate() {
            let new = (change.before.is_none() && change.merges).then(|| self.checked_out());
            let before = change.before.as_ref().and_then(Value::id).or(new.flatten());
            let after = change.after.as_ref().and_then(Value::id).and_then(|id| peeled.get(id));
            let (Some(before), Some((after, kind))) = (before, after) else { continue };
            if !change.held.is_empty() || kind != "commit" {
                continue;
            }
            let args =
                ["diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", before, after];
            // What the host had may be gone, and says nothing then.
            if let (Some(output), _) = self.scratch.run(&args, Input::Bytes(&[]))? {
                found.push((at, self.held(&log::raws(&output), None, repository)?));
            }
        }
        for (at, held) in found {
            repository.refs[at].held.extend(held);
        }
        Ok(())
    }

    /// Which of these changes wait until they are named.
    fn held(
        &self,
        raws: &[Raw],
        commit: Option<&String>,
        repository: &Repository,
    ) -> Result<Vec<Held>, GitError> {
        let mut held = Vec::new();
        for raw in raws {
            if let Some(why) = self.why(raw, repository)? {
                held.push(Held { commit: commit.cloned(), path: raw.path.clone(), why });
            }
            if held.len() >= MAX_HELD {
                break;
            }
        }
        Ok(held)
    }

    fn why(&self, raw: &Raw, repository: &Repository) -> Result<Option<String>, GitError> {
        if let Some(why) = (self.judge.later)(&raw.path) {
            let name = raw.path.file_name().unwrap_or_default();
            let is_file = raw.mode.starts_with("100");
            // Only some names are worth to be read.
            let harmless = is_file
                && (self.judge.harmless)(name, b"{}")
                && (self.scratch.blob(&raw.id)?)
                    .is_some_and(|content| (self.judge.harmless)(name, &content));
            return Ok((!harmless).then(|| why.to_owned()));
        }
        if raw.mode == "120000" {
            use std::os::unix::ffi::OsStrExt;
            let target = self.scratch.blob(&raw.id)?;
            let tree = repository.dir.parent().unwrap_or(Path::new(""));
            let link = RelPath::new(tree.join(&raw.path));
            let out = link.zip(target).is_none_or(|(link, target)| {
                let target = Path::new(OsStr::from_bytes(&target));
                crate::apply::leads_out(&link, target, self.view.host.path())
            });
            return Ok(out.then(|| "a link that leads out of the tree".into()));
        }
        Ok(None)
    }

    /// The host's refs, with the session's changes.
    fn resolved(&self, repository: &Repository) -> BTreeMap<String, Value> {
        let mut refs = self.scratch.host.clone();
        for change in &repository.refs {
            match &change.after {
                Some(after) => drop(refs.insert(change.name.clone(), after.clone())),
                None => drop(refs.remove(&change.name)),
            }
        }
        refs
    }

    fn index(
        &self,
        checkout: &mut Checkout,
        repository: &Repository,
        resolved: &BTreeMap<String, Value>,
    ) -> Result<(), GitError> {
        let commit = |value: Option<&Value>, refs: &BTreeMap<String, Value>| {
            match value {
                Some(Value::Symbolic(name)) => refs.get(name).and_then(Value::id),
                value => value.and_then(Value::id),
            }
            .map(str::to_owned)
        };
        let now = commit(checkout.on_host.as_ref(), &self.scratch.host);
        let then = commit(checkout.inside.as_ref(), resolved);
        let moves = checkout.head.is_some()
            || repository
                .refs
                .iter()
                .any(|change| Path::new(&change.name) == checkout.prefix.join("HEAD"));
        let head = if moves { checkout.inside.as_ref() } else { checkout.on_host.as_ref() };
        let elsewhere =
            commit(head, resolved).as_deref() != checkout.commit.as_ref().and_then(Value::id);
        let Some(index) = &mut checkout.index else { return Ok(()) };
        if elsewhere {
            index.stays = Some("the host is at another commit".into());
        }
        let differs = index.session.differs(&index.host);
        let ids: BTreeSet<&str> = differs
            .iter()
            .filter_map(|(_, entry)| entry.filter(|entry| !entry.is_submodule()))
            .map(|entry| entry.id.as_str())
            .collect();
        let known = self.scratch.types(ids.iter().copied())?;
        if ids.iter().any(|id| known.get(*id).is_none_or(|(_, kind)| kind != "blob")) {
            index.stays = Some("some of its objects are not in the session".into());
        }
        let raws: Vec<Raw> =
            differs.iter().map(|(path, entry)| Raw::of_index(path, *entry)).collect();
        let mut waiting = self.held(&raws, None, repository)?;
        if !waiting.is_empty() {
            let committed = self.tree(then.as_deref())?;
            let staged = |path: &Path| {
                let raw = raws.iter().find(|raw| raw.path == path);
                raw.is_some_and(|raw| {
                    let there = committed.get(path);
                    there.map_or("", |(_, id)| id.as_str()) != raw.known_id()
                })
            };
            waiting.retain(|held| staged(&held.path));
        }
        if index.moved {
            let committed = self.tree(now.as_deref())?;
            index.staged = log::differs(&index.host, &committed);
        }
        index.held = waiting;
        Ok(())
    }

    fn tree(&self, commit: Option<&str>) -> Result<log::Tree, GitError> {
        let Some(commit) = commit else { return Ok(log::Tree::new()) };
        let (output, _) = self.scratch.run(&["ls-tree", "-r", "-z", commit], Input::Bytes(&[]))?;
        Ok(log::tree(&output.unwrap_or_default()))
    }
}
