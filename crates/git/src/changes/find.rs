//! Changed files of a git directory → what they mean for the repository. Runs no program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sandbox_linux::tree::Kind;

use super::{Checkout, HeadChange, HostChange, IndexChange, RefChange, RepositoryChanges};
use crate::files::Files;
use crate::index::Index;
use crate::layout::checkout;
use crate::refs::{MAX_LINE, MAX_REFS, RefValue, after_last_change, as_name, is_lock, packed};

const MAX_INDEX: u64 = 512 << 20;
const MAX_CONFIG: u64 = 1 << 20;

/// Trees that hold the repository.
pub struct Sources<'s, E> {
    /// The session's state. Hostile.
    pub session: &'s dyn Files<Error = E>,
    /// The host's state.
    pub host: &'s dyn Files<Error = E>,
    /// State of the host at the start of the session.
    pub base: &'s dyn BaseFiles<Error = E>,
}

/// Reads from the record of a tree at the start of a session.
pub trait BaseFiles {
    /// Error of a failed read.
    type Error;

    /// Returns the state of a path.
    fn file(&self, path: &Path) -> Result<BaseFile, Self::Error>;
}

/// File at the start of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseFile {
    /// It did not exist.
    Absent,
    /// A regular file, with its content if that was recorded.
    File(Option<Vec<u8>>),
    /// A directory or something else.
    Other,
    /// Not recorded.
    Unknown,
}

/// Path of a git directory that the session changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPath {
    /// The path in the git directory.
    pub inner: PathBuf,
    /// Type before.
    pub before: Option<Kind>,
    /// Type after.
    pub after: Option<Kind>,
    /// True when the host changed it since the session began.
    pub meanwhile: bool,
}

impl ChangedPath {
    fn is_directory(&self) -> bool {
        let is_dir = |kind: Option<Kind>| matches!(kind, None | Some(Kind::Dir));
        is_dir(self.before) && is_dir(self.after)
    }
}

/// Finds the changes in the repository whose git directory is `dir`. `members` are the paths that changed in
/// it. `is_new` is true when the host has no repository there.
pub fn find<E>(
    sources: &Sources<'_, E>,
    dir: &Path,
    members: &[ChangedPath],
    is_new: bool,
) -> Result<RepositoryChanges, E> {
    let finder = Finder { dir, sources, members };
    let mut found = finder.changes()?;
    if sources.session.kind(&dir.join("HEAD"))? != Some(Kind::File) {
        found.refused = Some("its `HEAD` is not a file".into());
    }
    let shallow = dir.join("shallow");
    found.is_cut = !is_new
        && sources.session.read(&shallow, MAX_CONFIG)?
            != sources.host.read(&shallow, MAX_CONFIG)?;
    Ok(found)
}

/// Value of a ref when the session began.
#[derive(PartialEq, Eq)]
enum Base {
    Known(Option<RefValue>),
    Unknown,
}

impl Base {
    fn of(value: Option<RefValue>) -> Self {
        value.map_or(Self::Unknown, |value| Self::Known(Some(value)))
    }
}

struct Finder<'f, E> {
    dir: &'f Path,
    sources: &'f Sources<'f, E>,
    members: &'f [ChangedPath],
}

impl<E> Finder<'_, E> {
    fn changes(&self) -> Result<RepositoryChanges, E> {
        let mut found =
            RepositoryChanges { refused: self.refused()?, ..RepositoryChanges::default() };
        let objects = self.members.iter().filter(|member| member.inner.starts_with("objects"));
        let files = objects.filter(|member| member.after == Some(Kind::File));
        found.objects = files.map(|member| member.inner.clone()).collect();
        found.shallow = self.shallow()?;
        self.refs(&mut found)?;
        let checkouts: BTreeSet<PathBuf> =
            self.members.iter().map(|member| checkout(&member.inner).0).collect();
        for prefix in checkouts {
            let mut checkout = self.checkout(prefix, &mut found.invalid)?;
            // A commit that only `HEAD` points to is inspected like that of a ref.
            if let Some(head) = checkout.head.take_if(|head| head.after.id().is_some()) {
                let name = checkout.prefix.join("HEAD").display().to_string();
                let host = if head.moved { HostChange::Changed } else { HostChange::Same };
                found.refs.push(RefChange::new(name, head.before, Some(head.after), host));
            }
            found.checkouts.push(checkout);
        }
        Ok(found)
    }

    fn member(&self, inner: &Path) -> Option<&ChangedPath> {
        self.members.iter().find(|member| member.inner == inner)
    }

    fn at(&self, inner: impl AsRef<Path>) -> PathBuf {
        self.dir.join(inner)
    }

    /// Returns the reason if the repository's format is not supported.
    fn refused(&self) -> Result<Option<String>, E> {
        let config = self.at("config");
        for text in [
            self.sources.session.read(&config, MAX_CONFIG)?,
            self.sources.host.read(&config, MAX_CONFIG)?,
        ] {
            let text = text.unwrap_or_default().to_ascii_lowercase();
            let text: String =
                String::from_utf8_lossy(&text).chars().filter(|c| !c.is_whitespace()).collect();
            for (setting, name) in
                [("objectformat=sha256", "sha256 objects"), ("refstorage=reftable", "reftable")]
            {
                if text.contains(setting) {
                    return Ok(Some(format!(
                        "the repository uses {name}, which is not supported; fetch from it with git instead"
                    )));
                }
            }
        }
        Ok(None)
    }

    /// Returns the commits whose parents are missing, if the session created the repository.
    fn shallow(&self) -> Result<Option<Vec<u8>>, E> {
        if self.member(Path::new("shallow")).is_none() {
            return Ok(None);
        }
        let text = self.sources.session.read(&self.at("shallow"), MAX_CONFIG)?;
        let is_id = |line: &[u8]| matches!(RefValue::parse(line), Some(RefValue::Id(_)));
        Ok(text.filter(|text| {
            text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).all(is_id)
        }))
    }

    fn refs(&self, found: &mut RepositoryChanges) -> Result<(), E> {
        let session =
            self.sources.session.read(&self.at("packed-refs"), MAX_REFS)?.unwrap_or_default();
        let host = self.sources.host.read(&self.at("packed-refs"), MAX_REFS)?.unwrap_or_default();
        let (session, host) = (packed(&session), packed(&host));
        let base = self.base_packed()?;
        let mut names = BTreeSet::new();
        for member in self.members.iter().filter(|member| member.inner.starts_with("refs")) {
            let inner = &member.inner;
            if member.is_directory() || is_lock(inner.file_name()) {
                continue;
            }
            match as_name(inner) {
                Some(name) => drop(names.insert(name)),
                None if matches!(member.after, None | Some(Kind::Dir)) => {}
                None => found.invalid.push((inner.clone(), "not a valid ref name".into())),
            }
        }
        if self.member(Path::new("packed-refs")).is_some() {
            let old = base.as_ref().unwrap_or(&host);
            let changed = |name: &&String| old.get(*name) != session.get(*name);
            names.extend(old.keys().chain(session.keys()).filter(changed).cloned());
        }
        for name in names {
            let after = match self.sources.session.kind(&self.at(&name))? {
                None | Some(Kind::Dir) => session.get(&name).cloned(),
                Some(Kind::File) => {
                    let text =
                        self.sources.session.read(&self.at(&name), MAX_LINE)?.unwrap_or_default();
                    let Some(value) = RefValue::parse(&text) else {
                        found.invalid.push((name.into(), "does not name an object".into()));
                        continue;
                    };
                    Some(value)
                }
                Some(_) => {
                    found.invalid.push((name.into(), "not a regular file".into()));
                    continue;
                }
            };
            let loose = self.sources.host.read(&self.at(&name), MAX_LINE)?;
            let loose = loose.and_then(|text| RefValue::parse(&text));
            let before = loose.or_else(|| host.get(&name).cloned());
            found.refs.extend(self.one_ref(name, before, after, base.as_ref())?);
        }
        Ok(())
    }

    /// Returns the change of a ref; nothing if the host alone changed it.
    fn one_ref(
        &self,
        name: String,
        before: Option<RefValue>,
        after: Option<RefValue>,
        packed: Option<&BTreeMap<String, RefValue>>,
    ) -> Result<Option<RefChange>, E> {
        let base = self.base(&name, packed)?;
        let mut host = match base {
            Base::Known(base) if base == after => return Ok(None),
            _ if before == after => return Ok(None),
            Base::Unknown => HostChange::Unknown,
            Base::Known(base) if base == before => HostChange::Same,
            Base::Known(_) => HostChange::Changed,
        };
        let mut stash = None;
        if name == "refs/stash" {
            let log = self.at("logs/refs/stash");
            stash = self.sources.session.read(&log, MAX_REFS)?;
            if self.member(Path::new("logs/refs/stash")).is_some_and(|change| change.meanwhile) {
                host = HostChange::Changed;
            }
        }
        Ok(Some(RefChange { stash, ..RefChange::new(name, before, after, host) }))
    }

    /// Returns the `packed-refs` that the session began with, if it is known.
    fn base_packed(&self) -> Result<Option<BTreeMap<String, RefValue>>, E> {
        Ok(match self.sources.base.file(&self.at("packed-refs"))? {
            BaseFile::Absent => Some(BTreeMap::new()),
            BaseFile::File(text) => text.map(|text| packed(&text)),
            BaseFile::Other | BaseFile::Unknown => None,
        })
    }

    /// Returns the value of a ref when the session began, if it is known: from its file, from
    /// `packed-refs`, or from the last line of its log.
    fn base(&self, name: &str, packed: Option<&BTreeMap<String, RefValue>>) -> Result<Base, E> {
        let base = self.sources.base;
        let path = self.at(name);
        match base.file(&path)? {
            BaseFile::File(text) => {
                return Ok(Base::of(text.and_then(|text| RefValue::parse(&text))));
            }
            BaseFile::Absent | BaseFile::Other => {}
            // A ref that the session packed is in `packed-refs` alone.
            BaseFile::Unknown if self.sources.host.kind(&path)? != Some(Kind::File) => {}
            BaseFile::Unknown => return Ok(Base::Unknown),
        }
        if let Some(packed) = packed {
            return Ok(Base::Known(packed.get(name).cloned()));
        }
        match base.file(&self.at("logs").join(name))? {
            BaseFile::File(Some(log)) => Ok(Base::of(after_last_change(&log))),
            _ => Ok(Base::Unknown),
        }
    }

    fn checkout(
        &self,
        prefix: PathBuf,
        invalid: &mut Vec<(PathBuf, String)>,
    ) -> Result<Checkout, E> {
        let mut found = Checkout { prefix, ..Checkout::default() };
        let linked = !found.prefix.as_os_str().is_empty();
        if linked && self.sources.host.kind(&self.at(found.prefix.join("gitdir")))?.is_none() {
            // `git worktree add` created it in the session; the host has no such checkout.
            return Ok(found);
        }
        let head = found.prefix.join("HEAD");
        let parse = |text: Option<Vec<u8>>| text.and_then(|text| RefValue::parse(&text));
        found.on_host = parse(self.sources.host.read(&self.at(&head), MAX_LINE)?);
        found.in_session = parse(self.sources.session.read(&self.at(&head), MAX_LINE)?);
        if let Some(change) = self.member(&head) {
            match found.in_session.clone().filter(is_head) {
                after if after.is_some() && after == found.on_host => {}
                Some(after) => {
                    let before = found.on_host.clone();
                    found.head = Some(HeadChange { before, after, moved: change.meanwhile });
                }
                None => invalid.push((head, "names neither a branch nor a commit".into())),
            }
        }
        found.commit = match &found.in_session {
            Some(RefValue::Symbolic(name)) => self.session_value(name)?,
            value => value.clone(),
        };
        found.index = self.index(&found.prefix)?;
        Ok(found)
    }

    /// Returns the value of a ref in the session.
    fn session_value(&self, name: &str) -> Result<Option<RefValue>, E> {
        let loose = self.sources.session.read(&self.at(name), MAX_LINE)?;
        if let Some(value) = loose.and_then(|text| RefValue::parse(&text)) {
            return Ok(Some(value));
        }
        let text =
            self.sources.session.read(&self.at("packed-refs"), MAX_REFS)?.unwrap_or_default();
        Ok(packed(&text).remove(name))
    }

    fn index(&self, prefix: &Path) -> Result<Option<IndexChange>, E> {
        let path = prefix.join("index");
        let Some(change) = self.member(&path) else { return Ok(None) };
        let host = self.sources.host.read(&self.at(&path), MAX_INDEX)?;
        let read = host.as_deref().map(Index::parse);
        let session = self.sources.session.read(&self.at(&path), MAX_INDEX)?;
        let mut found = IndexChange {
            session: Index::default(),
            host: read.clone().flatten().unwrap_or_default(),
            count: 0,
            moved: change.meanwhile,
            staged: false,
            held: Vec::new(),
            stays: None,
        };
        match (session.as_deref().map(Index::parse), read) {
            (None, _) => return Ok(None),
            (Some(None), _) => found.stays = Some("it cannot be read".into()),
            (_, Some(None)) => found.stays = Some("the host's index cannot be read".into()),
            (Some(Some(index)), _) => found.session = index,
        }
        found.count = found.session.differs(&found.host).len();
        if found.session.is_unmerged() {
            found.stays = Some("the session has an unfinished merge".into());
        }
        Ok((found.count > 0).then_some(found))
    }
}

/// Returns true when git accepts this as the content of `HEAD`.
fn is_head(value: &RefValue) -> bool {
    match value {
        RefValue::Id(_) => true,
        RefValue::Symbolic(name) => name.starts_with("refs/heads/"),
    }
}
