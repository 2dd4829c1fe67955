//! Inspection of a session's commits: which are new, and which files in them are held back.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Checkout, Commit, Held, HostChange, RefChange, RepositoryChanges, with_changes};
use crate::refs::{RefValue, resolve};
use crate::scratch::output::{self, ChangedFile, LOG_COMMAND, Log, Tree};
use crate::scratch::{ScratchError, ScratchRepository};

/// Maximum number of new commits that are inspected.
const MAX_COMMITS: usize = 20_000;
/// Maximum number of commits listed for each ref.
const MAX_LISTED: usize = 1000;
/// Maximum number of files listed for each ref that can run code later.
const MAX_HELD: usize = 20;

/// Rules for files that can run code later.
#[derive(Clone, Copy)]
pub struct HoldRules<'r> {
    /// Returns the program that runs a file at this path.
    pub runs_later: &'r dyn Fn(&Path) -> Option<&'static str>,
    /// Returns true when a file with this name and content runs nothing.
    pub is_harmless: &'r dyn Fn(&OsStr, &[u8]) -> bool,
    /// Returns true when a symlink at this path of the work tree points outside the tree.
    pub leads_out: &'r dyn Fn(&Path, &Path) -> bool,
}

/// Names and types of the objects that values resolve to.
type Peeled = BTreeMap<String, (String, String)>;

/// Finds the new commits of each ref, and the files in them that are held back. The scratch repository
/// has the session's objects.
pub fn inspect(
    scratch: &ScratchRepository<'_>,
    changes: &mut RepositoryChanges,
    rules: &HoldRules<'_>,
) -> Result<(), ScratchError> {
    Inspector { scratch, rules }.inspect(changes)
}

struct Inspector<'i> {
    scratch: &'i ScratchRepository<'i>,
    rules: &'i HoldRules<'i>,
}

impl Inspector<'_> {
    fn inspect(&self, changes: &mut RepositoryChanges) -> Result<(), ScratchError> {
        let peeled = self.peel(&changes.refs)?;
        for change in &mut changes.refs {
            self.check(change, &peeled);
        }
        changes.refs.retain(|change| !self.is_contained(change));
        let tips = peeled.values().filter(|(_, kind)| kind == "commit").map(|(id, _)| id.as_str());
        let stashes: Vec<String> =
            changes.refs.iter().flat_map(RefChange::stashes).map(|(_, id)| id).collect();
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
            Log::parse(&self.scratch.git(&LOG_COMMAND, &input)?)
        };
        let held = self.held_commits(&log)?;
        for change in &mut changes.refs {
            let tip = change.after.as_ref().and_then(RefValue::id).and_then(|id| peeled.get(id));
            let Some((tip, _)) = tip else { continue };
            if count > MAX_COMMITS {
                let why = format!("more than {MAX_COMMITS} new commits: not inspected");
                change.held.push(Held { commit: None, path: PathBuf::new(), why });
            }
            list(&log, tip, &held, change);
            let older: Vec<String> = change.stashes().into_iter().map(|(_, id)| id).collect();
            for id in &older {
                list(&log, id, &held, change);
            }
        }
        self.moved(changes, &peeled)?;
        let resolved = with_changes(&self.scratch.refs, &changes.refs);
        let mut checkouts = std::mem::take(&mut changes.checkouts);
        for checkout in &mut checkouts {
            self.index(checkout, changes, &resolved)?;
        }
        changes.checkouts = checkouts;
        Ok(())
    }

    /// Resolves each new value to its object and the object's type.
    fn peel(&self, refs: &[RefChange]) -> Result<Peeled, ScratchError> {
        let ids = refs.iter().filter_map(|change| change.after.as_ref().and_then(RefValue::id));
        let queries: Vec<String> = ids.map(|id| format!("{id}^{{}}")).collect();
        let types = self.scratch.types(queries.iter().map(String::as_str))?;
        let by_id =
            |(query, peeled): (String, _)| (query.trim_end_matches("^{}").to_owned(), peeled);
        Ok(types.into_iter().map(by_id).collect())
    }

    /// Checks that git would accept a new value, and that the host's value may be replaced.
    fn check(&self, change: &mut RefChange, peeled: &Peeled) {
        let hold = |change: &mut RefChange, why: &str| {
            change.held.push(Held { commit: None, path: PathBuf::new(), why: why.into() });
        };
        if let Some(id) = change.after.as_ref().and_then(RefValue::id) {
            match peeled.get(id).map(|(_, kind)| kind.as_str()) {
                None => change.refused = Some("its objects are missing from the session".into()),
                Some("commit") => {}
                Some(_) if change.name.starts_with("refs/heads/") => {
                    change.refused = Some("a branch must point to a commit".into());
                }
                Some(_) => hold(change, "does not point to a commit"),
            }
        }
        if change.name.starts_with("refs/replace/") && change.after.is_some() {
            hold(change, "makes git use another object in place of the original");
        }
        if change.host == HostChange::Unknown {
            let (before, after) = (change.before.as_ref(), change.after.as_ref());
            let ids = (before.and_then(RefValue::id), after.and_then(RefValue::id));
            let forward = match ids {
                (Some(old), Some(new)) => self.is_ancestor(old, new),
                _ => before.is_none(),
            };
            change.host = if forward { HostChange::Same } else { HostChange::Changed };
        }
    }

    /// Returns true when the host's ref contains the session's, so that nothing is left to apply.
    fn is_contained(&self, change: &RefChange) -> bool {
        let ids = (
            change.before.as_ref().and_then(RefValue::id),
            change.after.as_ref().and_then(RefValue::id),
        );
        change.host == HostChange::Changed
            && matches!(ids, (Some(host), Some(session)) if self.is_ancestor(session, host))
    }

    fn is_ancestor(&self, old: &str, new: &str) -> bool {
        matches!(self.scratch.try_git(&["merge-base", "--is-ancestor", old, new]), Ok(Some(_)))
    }

    /// Finds the commits that change files that run code later.
    fn held_commits(&self, log: &Log) -> Result<BTreeMap<String, Vec<Held>>, ScratchError> {
        let mut held = BTreeMap::new();
        for (id, files) in &log.changes {
            let found = self.held(files, Some(id))?;
            if !found.is_empty() {
                held.insert(id.clone(), found);
            }
        }
        Ok(held)
    }

    /// Returns the commit that the host has checked out.
    fn checked_out(&self) -> Option<&str> {
        resolve(self.scratch.refs.get("HEAD"), &self.scratch.refs)
    }

    /// Holds refs whose tree changes a held file, by any commits. A new ref with a merge is compared with
    /// the commit that the host has checked out, because a merge can restore an old file from one of its
    /// parents.
    fn moved(&self, changes: &mut RepositoryChanges, peeled: &Peeled) -> Result<(), ScratchError> {
        let mut found = Vec::new();
        for (at, change) in changes.refs.iter().enumerate() {
            let new = (change.before.is_none() && change.has_merge).then(|| self.checked_out());
            let before = change.before.as_ref().and_then(RefValue::id).or(new.flatten());
            let after = change.after.as_ref().and_then(RefValue::id).and_then(|id| peeled.get(id));
            let (Some(before), Some((after, kind))) = (before, after) else { continue };
            if !change.held.is_empty() || kind != "commit" {
                continue;
            }
            let args =
                ["diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", before, after];
            // The host's old commit may be gone; then there is nothing to compare with.
            if let Some(output) = self.scratch.try_git(&args)? {
                found.push((at, self.held(&output::changed_files(&output), None)?));
            }
        }
        for (at, held) in found {
            changes.refs[at].held.extend(held);
        }
        Ok(())
    }

    /// Returns the files that are held back.
    fn held(
        &self,
        files: &[ChangedFile],
        commit: Option<&String>,
    ) -> Result<Vec<Held>, ScratchError> {
        let mut held = Vec::new();
        for file in files {
            if let Some(why) = self.why(file)? {
                held.push(Held { commit: commit.cloned(), path: file.path.clone(), why });
            }
            if held.len() >= MAX_HELD {
                break;
            }
        }
        Ok(held)
    }

    fn why(&self, file: &ChangedFile) -> Result<Option<String>, ScratchError> {
        if let Some(why) = (self.rules.runs_later)(&file.path) {
            let name = file.path.file_name().unwrap_or_default();
            let is_file = file.mode.starts_with("100");
            // Skip reading a file whose name can never be harmless.
            let harmless = is_file
                && (self.rules.is_harmless)(name, b"{}")
                && (self.scratch.blob(&file.id)?)
                    .is_some_and(|content| (self.rules.is_harmless)(name, &content));
            return Ok((!harmless).then(|| why.to_owned()));
        }
        if file.mode == "120000" {
            let target = self.scratch.blob(&file.id)?;
            let out = target.is_none_or(|target| {
                (self.rules.leads_out)(&file.path, Path::new(OsStr::from_bytes(&target)))
            });
            return Ok(out.then(|| "a symlink that points outside the tree".into()));
        }
        Ok(None)
    }

    fn index(
        &self,
        checkout: &mut Checkout,
        changes: &RepositoryChanges,
        resolved: &BTreeMap<String, RefValue>,
    ) -> Result<(), ScratchError> {
        let now = resolve(checkout.on_host.as_ref(), &self.scratch.refs);
        let then = resolve(checkout.in_session.as_ref(), resolved);
        let moves = checkout.head.is_some()
            || changes
                .refs
                .iter()
                .any(|change| Path::new(&change.name) == checkout.prefix.join("HEAD"));
        let head = if moves { checkout.in_session.as_ref() } else { checkout.on_host.as_ref() };
        let elsewhere = resolve(head, resolved) != checkout.commit.as_ref().and_then(RefValue::id);
        let Some(index) = &mut checkout.index else { return Ok(()) };
        if elsewhere {
            index.stays = Some("the host has another commit checked out".into());
        }
        let differs = index.session.differs(&index.host);
        let ids: BTreeSet<&str> = differs
            .iter()
            .filter_map(|(_, entry)| entry.filter(|entry| !entry.is_submodule()))
            .map(|entry| entry.id.as_str())
            .collect();
        let known = self.scratch.types(ids.iter().copied())?;
        if ids.iter().any(|id| known.get(*id).is_none_or(|(_, kind)| kind != "blob")) {
            index.stays = Some("some of its objects are missing from the session".into());
        }
        let files: Vec<ChangedFile> =
            differs.iter().map(|(path, entry)| ChangedFile::of_index(path, *entry)).collect();
        let mut waiting = self.held(&files, None)?;
        if !waiting.is_empty() {
            let committed = self.tree(then)?;
            let staged = |path: &Path| {
                let file = files.iter().find(|file| file.path == path);
                file.is_some_and(|file| {
                    let there = committed.get(path);
                    there.map_or("", |(_, id)| id.as_str()) != file.id
                })
            };
            waiting.retain(|held| staged(&held.path));
        }
        if index.moved {
            let committed = self.tree(now)?;
            index.staged = output::differs(&index.host, &committed);
        }
        index.held = waiting;
        Ok(())
    }

    fn tree(&self, commit: Option<&str>) -> Result<Tree, ScratchError> {
        let Some(commit) = commit else { return Ok(Tree::new()) };
        let output = self.scratch.try_git(&["ls-tree", "-r", "-z", commit])?;
        Ok(output::tree(&output.unwrap_or_default()))
    }
}

/// Adds the new commits that a ref reaches to its change, with the held files in them.
fn list(log: &Log, tip: &str, held: &BTreeMap<String, Vec<Held>>, change: &mut RefChange) {
    for (id, commit) in log.reachable(tip) {
        change.count += 1;
        change.has_merge |= commit.parents.len() > 1;
        if change.commits.len() < MAX_LISTED {
            let subject = commit.subject.clone();
            change.commits.push(Commit { id: id.to_owned(), subject });
        }
        if let Some(held) = held.get(id).filter(|_| change.held.len() < MAX_HELD) {
            change.held.extend(held.iter().cloned());
        }
    }
}
