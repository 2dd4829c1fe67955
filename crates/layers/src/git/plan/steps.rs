//! Steps that write a repository's changes: the pack, refs and their logs, `HEAD`, the index.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sandbox_git::changes::{RefChange, with_changes};
use sandbox_git::files::Files;
use sandbox_git::refs::{MAX_REFS, RefValue, log_line, packed, resolve, without};
use sandbox_git::scratch::Pack;

use super::{Taken, Taker};
use crate::RelPath;
use crate::apply::{ApplyError, Goal, Made, Source, Step, original};
use crate::diff::Digest;
use crate::host::{HostTree, Kind};

/// Builder of a repository's steps.
pub(super) struct Maker<'m, 't> {
    pub(super) taker: &'m mut Taker<'t>,
    /// The host's refs.
    pub(super) host: BTreeMap<String, RefValue>,
    pub(super) steps: Vec<Step>,
    /// Directories that will exist.
    pub(super) dirs: BTreeSet<RelPath>,
    /// Paths that will be removed.
    pub(super) gone: BTreeSet<RelPath>,
}

/// Path where an entry of the host conflicts, and the reason.
pub(super) type Clash = Option<(PathBuf, String)>;

impl Maker<'_, '_> {
    pub(super) fn all(
        &mut self,
        pack: Option<Pack>,
        taken: &Taken<'_>,
    ) -> Result<Clash, ApplyError> {
        if self.taker.repository.is_new {
            for dir in ["objects/pack", "refs/heads"] {
                self.parents(&Path::new(dir).join("x"))?;
            }
            if let Some(text) = &self.taker.repository.changes.shallow {
                self.write("shallow", text.clone())?;
            }
        }
        if let Some(pack) = pack {
            for end in ["pack", "idx"] {
                self.copy(&pack, end)?;
            }
        }
        self.delete(taken)?;
        let is_ref = |change: &&&RefChange| change.name.starts_with("refs/");
        for change in taken.refs.iter().filter(is_ref) {
            let Some(after) = &change.after else { continue };
            if !self.clear(&change.name)? || !self.write(&change.name, after.line().into())? {
                let why = "the host has another ref in its place".to_owned();
                return Ok(Some((change.name.clone().into(), why)));
            }
            self.log(change)?;
        }
        self.heads(taken)?;
        for (checkout, _, index) in &taken.checkouts {
            if let Some(change) = checkout.index.as_ref().filter(|_| *index) {
                self.write(checkout.prefix.join("index"), change.session.write(&change.host))?;
            }
        }
        Ok(None)
    }

    fn host(&self) -> &HostTree {
        self.taker.target.host
    }

    fn path(&self, inner: impl AsRef<Path>) -> Option<RelPath> {
        self.taker.repository.path(inner)
    }

    fn kind(&self, path: &RelPath) -> Result<Option<Kind>, ApplyError> {
        let found = self.host().stat(path).map_err(|error| ApplyError::at(path, error))?;
        Ok(found.map(|found| found.kind).filter(|_| !self.gone.contains(path)))
    }

    /// Adds the parent directories of a path. Returns false if another entry conflicts.
    fn parents(&mut self, inner: &Path) -> Result<bool, ApplyError> {
        let Some(path) = self.path(inner) else { return Ok(false) };
        let above = path.as_path().ancestors().skip(1).filter_map(RelPath::new);
        let mut above: Vec<RelPath> = above.collect();
        above.reverse();
        for dir in above {
            if self.dirs.contains(&dir) {
                continue;
            }
            match self.kind(&dir)? {
                Some(Kind::Dir) => {}
                Some(_) => return Ok(false),
                None => self.steps.push(self.taker.step(dir.clone(), None, Some(Goal::Dir))?),
            }
            self.dirs.insert(dir);
        }
        Ok(true)
    }

    /// Adds a file. Returns false if another entry conflicts.
    fn write(&mut self, inner: impl AsRef<Path>, bytes: Vec<u8>) -> Result<bool, ApplyError> {
        let Some(path) = self.path(inner.as_ref()) else { return Ok(false) };
        if !self.parents(inner.as_ref())? {
            return Ok(false);
        }
        let before = if self.gone.contains(&path) { None } else { original(self.host(), &path)? };
        if before.as_ref().is_some_and(|was| was.kind != Kind::File) {
            return Ok(false);
        }
        let digest = Digest::of(&bytes);
        if before.as_ref().is_some_and(|was| was.digest == Some(digest)) {
            return Ok(true);
        }
        let executable = before.as_ref().is_some_and(|was| was.mode & 0o100 != 0);
        let size = bytes.len() as u64;
        let goal = Goal::File { digest, size, executable, source: Source::Journal };
        self.steps.push(self.taker.step(path.clone(), before, Some(goal))?);
        let made = Made { ancestor: bytes.clone(), bytes };
        self.taker.plan.made.insert((self.taker.target.number, path), made);
        Ok(true)
    }

    fn copy(&mut self, pack: &Pack, end: &str) -> Result<(), ApplyError> {
        let name = format!("pack-{}.{end}", pack.name);
        let (inner, from) = (Path::new("objects/pack").join(&name), pack.dir.join(&name));
        let Some(path) = self.path(&inner) else { return Ok(()) };
        self.parents(&inner)?;
        if self.kind(&path)?.is_some() {
            // A pack of the same name has the same content.
            return Ok(());
        }
        let failed = |source| ApplyError::Host { path: from.clone(), source };
        let file = File::open(&from).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let digest = Digest::read(file).map_err(failed)?;
        let goal = Goal::File { digest, size, executable: false, source: Source::Journal };
        self.steps.push(self.taker.step(path.clone(), None, Some(goal))?);
        self.taker.plan.copies.insert((self.taker.target.number, path), from);
        Ok(())
    }

    fn remove(&mut self, path: RelPath) -> Result<(), ApplyError> {
        let Some(before) = original(self.host(), &path)? else { return Ok(()) };
        self.steps.push(self.taker.step(path.clone(), Some(before), None)?);
        self.gone.insert(path);
        Ok(())
    }

    /// Deletes refs, with their logs.
    fn delete(&mut self, taken: &Taken<'_>) -> Result<(), ApplyError> {
        let gone: BTreeSet<&str> = taken
            .refs
            .iter()
            .filter(|change| change.after.is_none())
            .map(|change| change.name.as_str())
            .collect();
        let packed_refs = self.taker.repository.dir.join("packed-refs");
        let text = Files::read(self.host(), &packed_refs, MAX_REFS)
            .map_err(|source| ApplyError::Host { path: packed_refs, source })?;
        if let Some(text) =
            text.filter(|text| packed(text).keys().any(|name| gone.contains(name.as_str())))
        {
            self.write("packed-refs", without(&text, &|name| gone.contains(name)))?;
        }
        for name in gone {
            for inner in [PathBuf::from(name), Path::new("logs").join(name)] {
                let Some(path) = self.path(&inner) else { continue };
                if self.kind(&path)? == Some(Kind::File) {
                    self.remove(path)?;
                }
            }
        }
        Ok(())
    }

    /// Removes empty directories at the path of a ref. Returns false if one contains another ref.
    fn clear(&mut self, name: &str) -> Result<bool, ApplyError> {
        let Some(top) = self.path(name) else { return Ok(false) };
        if self.kind(&top)? != Some(Kind::Dir) {
            return Ok(true);
        }
        let (mut todo, mut dirs) = (vec![top], Vec::new());
        while let Some(dir) = todo.pop() {
            let names = self.host().list(&dir).map_err(|error| ApplyError::at(&dir, error))?;
            for path in names.iter().filter_map(|name| dir.join(name)) {
                match self.kind(&path)? {
                    None => {}
                    Some(Kind::Dir) => todo.push(path),
                    Some(_) => return Ok(false),
                }
            }
            dirs.push(dir);
        }
        dirs.sort();
        dirs.into_iter().rev().try_for_each(|dir| self.remove(dir))?;
        Ok(true)
    }

    /// Adds a line to the log of a ref, like git. The log of the stash is the list of stashes.
    fn log(&mut self, change: &RefChange) -> Result<(), ApplyError> {
        let stashes = change.stashes();
        if !stashes.is_empty() {
            let lines = stashes.iter().flat_map(|(line, _)| line.to_vec()).collect();
            self.write("logs/refs/stash", lines)?;
            return Ok(());
        }
        let [before, after] =
            [&change.before, &change.after].map(|value| value.as_ref().and_then(RefValue::id));
        self.log_line(Path::new("logs").join(&change.name), before, after)
    }

    fn log_line(
        &mut self,
        inner: PathBuf,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<(), ApplyError> {
        let Some(path) = self.path(&inner) else { return Ok(()) };
        let failed = |source| ApplyError::at(&path, source);
        let old = Files::read(self.host(), path.as_path(), u64::MAX).map_err(failed)?;
        let is_work_tree = self.taker.repository.dir.ends_with(".git");
        if before == after || (old.is_none() && !is_work_tree) {
            return Ok(());
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let line = log_line(before, after, time, "apply: from the session");
        let mut text = old.unwrap_or_default();
        text.extend(line.bytes());
        // A conflict in a log is ignored.
        self.write(inner, text).map(drop)
    }

    /// Moves `HEAD` of each checkout and adds a line to its log.
    fn heads(&mut self, taken: &Taken<'_>) -> Result<(), ApplyError> {
        let host = std::mem::take(&mut self.host);
        let refs = with_changes(&host, taken.refs.iter().copied());
        for (checkout, head, _) in &taken.checkouts {
            let name = checkout.prefix.join("HEAD");
            let detached = taken.refs.iter().find(|change| Path::new(&change.name) == name);
            let moved = checkout.head.as_ref().filter(|_| *head).map(|change| &change.after);
            let after = detached.and_then(|change| change.after.as_ref()).or(moved);
            let before_id = resolve(checkout.on_host.as_ref(), &host);
            let after_id = resolve(after.or(checkout.on_host.as_ref()), &refs);
            if after_id.is_some() {
                self.log_line(checkout.prefix.join("logs/HEAD"), before_id, after_id)?;
            }
            if let Some(after) = after {
                self.write(&name, after.line().into())?;
            }
        }
        Ok(())
    }
}
