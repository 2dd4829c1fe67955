//! Changes of files → what they mean for the repositories that they lie in. Runs no program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::inside::Inside;
use super::place::{self, Places};
use super::{Checkout, HeadChange, Index, IndexChange, Meanwhile, RefChange, Repository, Value};
use crate::RelPath;
use crate::diff::{Change, DiffError, Origin, Side, View};
use crate::host::Kind;
use crate::repository::{MAX_REFS, as_name, belongs, checkout, is_lock, packed};

const MAX_INDEX: u64 = 512 << 20;
const MAX_LINE: u64 = 8192;
const MAX_CONFIG: u64 = 1 << 20;

/// The changes of a root, told apart.
#[derive(Debug, Default)]
pub struct Sorted {
    /// Files, links and directories.
    pub files: Vec<Change>,
    /// Repositories.
    pub repositories: Vec<Repository>,
}

/// Tells the changes of files and those of repositories apart. A repository whose refs, `HEAD` and
/// index say the same as before has no change.
pub fn sort(view: &View<'_>, changes: &[Change]) -> Result<Sorted, DiffError> {
    if !changes.iter().any(|change| may_be_git(&change.path)) {
        return Ok(Sorted { files: changes.to_vec(), repositories: Vec::new() });
    }
    let inside = Inside::new(*view)?;
    let mut places = Places::new(&inside);
    let (mut sorted, mut groups) = (Sorted::default(), BTreeMap::<PathBuf, Group>::new());
    for change in changes {
        match places.of(&change.path)? {
            Some(place) => {
                let group = groups.entry(place.dir).or_default();
                group.list.push((place.inner, change.clone()));
            }
            None => sorted.files.push(change.clone()),
        }
    }
    for (dir, group) in groups {
        let (repository, files) = group.read(dir, &inside)?;
        sorted.files.extend(files);
        sorted.repositories.extend(repository);
    }
    sorted.files.sort_by(|one, two| one.path.cmp(&two.path));
    Ok(sorted)
}

/// Returns true when a path may lie in a git directory.
fn may_be_git(path: &RelPath) -> bool {
    let names = [".git", "objects", "refs", "HEAD", "packed-refs", "logs"];
    path.as_path().iter().any(|part| names.iter().any(|name| part == *name))
}

/// The changes of one repository.
#[derive(Default)]
struct Group {
    list: Vec<(PathBuf, Change)>,
}

impl Group {
    fn read(
        self,
        dir: PathBuf,
        inside: &Inside<'_>,
    ) -> Result<(Option<Repository>, Vec<Change>), DiffError> {
        let is_new = inside.host_kind(&dir.join("HEAD"))?.is_none();
        let head = inside.kind(&dir.join("HEAD"))?;
        if !is_new && head.is_none() {
            let list = self.list.into_iter().map(|(_, change)| change);
            let (gone, files) = list.partition(|change| change.after.is_none());
            return Ok((Some(Repository { dir, gone, ..Repository::default() }), files));
        }
        let (mut files, mut members) = (Vec::new(), Vec::new());
        for (inner, change) in self.list {
            let is_dir = |side: &Option<Side>| matches!(side, None | Some(Side::Dir));
            let is_dir = is_dir(&change.before) && is_dir(&change.after);
            if belongs(&inner) || is_dir || (is_new && place::is_template(&inner)) {
                members.push((inner, change));
            } else {
                files.push(change);
            }
        }
        let finder = Finder { dir: &dir, inside, members: &members };
        let mut found = finder.repository()?;
        if head != Some(Kind::File) {
            found.refused = Some("its `HEAD` is not a file".into());
        }
        let shallow = dir.join("shallow");
        found.cut = !is_new
            && inside.file(&shallow, MAX_CONFIG)? != inside.on_host(&shallow, MAX_CONFIG)?;
        found.is_new = is_new;
        found.dir = dir;
        Ok(((!found.is_empty()).then_some(found), files))
    }
}

/// The value of a ref when the session began.
#[derive(PartialEq, Eq)]
enum Base {
    Known(Option<Value>),
    Unknown,
}

impl Base {
    fn of(value: Option<Value>) -> Self {
        value.map_or(Self::Unknown, |value| Self::Known(Some(value)))
    }
}

struct Finder<'f> {
    dir: &'f Path,
    inside: &'f Inside<'f>,
    members: &'f [(PathBuf, Change)],
}

impl Finder<'_> {
    fn repository(&self) -> Result<Repository, DiffError> {
        let mut found = Repository { refused: self.refused()?, ..Repository::default() };
        let is_file = |change: &Change| matches!(change.after, Some(Side::File { .. }));
        let objects = self.members.iter().filter(|(inner, _)| inner.starts_with("objects"));
        found.objects =
            objects.filter(|(_, change)| is_file(change)).map(|(_, c)| c.path.clone()).collect();
        found.shallow = self.shallow()?;
        self.refs(&mut found)?;
        let checkouts: BTreeSet<PathBuf> =
            self.members.iter().map(|(inner, _)| checkout(inner).0).collect();
        for prefix in checkouts {
            let mut checkout = self.checkout(prefix, &mut found.invalid)?;
            // A commit that `HEAD` alone names is looked at like that of a ref.
            if let Some(head) = checkout.head.take_if(|head| head.after.id().is_some()) {
                let name = checkout.prefix.join("HEAD").display().to_string();
                let host = if head.moved { Meanwhile::Changed } else { Meanwhile::Same };
                found.refs.push(RefChange::new(name, head.before, Some(head.after), host));
            }
            found.checkouts.push(checkout);
        }
        Ok(found)
    }

    fn change(&self, inner: &Path) -> Option<&Change> {
        self.members.iter().find(|(path, _)| path == inner).map(|(_, change)| change)
    }

    fn at(&self, inner: impl AsRef<Path>) -> PathBuf {
        self.dir.join(inner)
    }

    /// Formats that are not understood here.
    fn refused(&self) -> Result<Option<String>, DiffError> {
        let config = self.at("config");
        for text in
            [self.inside.file(&config, MAX_CONFIG)?, self.inside.on_host(&config, MAX_CONFIG)?]
        {
            let text = text.unwrap_or_default().to_ascii_lowercase();
            let text: String =
                String::from_utf8_lossy(&text).chars().filter(|c| !c.is_whitespace()).collect();
            for (setting, name) in
                [("objectformat=sha256", "sha256 objects"), ("refstorage=reftable", "reftable")]
            {
                if text.contains(setting) {
                    return Ok(Some(format!(
                        "the repository uses {name}, which is not supported: fetch from it with git"
                    )));
                }
            }
        }
        Ok(None)
    }

    /// The commits whose parents are not there, where the session made the repository.
    fn shallow(&self) -> Result<Option<Vec<u8>>, DiffError> {
        if self.change(Path::new("shallow")).is_none() {
            return Ok(None);
        }
        let text = self.inside.file(&self.at("shallow"), MAX_CONFIG)?;
        let is_id = |line: &[u8]| matches!(Value::parse(line), Some(Value::Id(_)));
        Ok(text.filter(|text| {
            text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).all(is_id)
        }))
    }

    fn refs(&self, found: &mut Repository) -> Result<(), DiffError> {
        let session = self.inside.file(&self.at("packed-refs"), MAX_REFS)?.unwrap_or_default();
        let host = self.inside.on_host(&self.at("packed-refs"), MAX_REFS)?.unwrap_or_default();
        let (session, host) = (packed(&session), packed(&host));
        let base = self.base_packed()?;
        let mut names = BTreeSet::new();
        for (inner, change) in self.members.iter().filter(|(inner, _)| inner.starts_with("refs")) {
            let is_dir = |side: &Option<Side>| matches!(side, None | Some(Side::Dir));
            if is_dir(&change.before) && is_dir(&change.after) || is_lock(inner.file_name()) {
                continue;
            }
            match as_name(inner) {
                Some(name) => drop(names.insert(name)),
                None if matches!(change.after, None | Some(Side::Dir)) => {}
                None => found.invalid.push((inner.clone(), "not a valid name of a ref".into())),
            }
        }
        if self.change(Path::new("packed-refs")).is_some() {
            let old = base.as_ref().unwrap_or(&host);
            let changed = |name: &&String| old.get(*name) != session.get(*name);
            names.extend(old.keys().chain(session.keys()).filter(changed).cloned());
        }
        for name in names {
            let after = match self.inside.kind(&self.at(&name))? {
                None | Some(Kind::Dir) => session.get(&name).cloned(),
                Some(Kind::File) => {
                    let text = self.inside.file(&self.at(&name), MAX_LINE)?.unwrap_or_default();
                    let Some(value) = Value::parse(&text) else {
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
            let loose = self.inside.on_host(&self.at(&name), MAX_LINE)?;
            let loose = loose.and_then(|text| Value::parse(&text));
            let before = loose.or_else(|| host.get(&name).cloned());
            found.refs.extend(self.one_ref(name, before, after, base.as_ref())?);
        }
        Ok(())
    }

    /// A ref that the session changed; nothing where the host alone did.
    fn one_ref(
        &self,
        name: String,
        before: Option<Value>,
        after: Option<Value>,
        packed: Option<&BTreeMap<String, Value>>,
    ) -> Result<Option<RefChange>, DiffError> {
        let base = self.base(&name, packed)?;
        let mut host = match base {
            Base::Known(base) if base == after => return Ok(None),
            _ if before == after => return Ok(None),
            Base::Unknown => Meanwhile::Unknown,
            Base::Known(base) if base == before => Meanwhile::Same,
            Base::Known(_) => Meanwhile::Changed,
        };
        let mut stash = None;
        if name == "refs/stash" {
            let log = self.at("logs/refs/stash");
            stash = self.inside.file(&log, MAX_REFS)?;
            if self.change(Path::new("logs/refs/stash")).is_some_and(|change| change.meanwhile) {
                host = Meanwhile::Changed;
            }
        }
        Ok(Some(RefChange { stash, ..RefChange::new(name, before, after, host) }))
    }

    /// The `packed-refs` that the session began with, where that is known.
    fn base_packed(&self) -> Result<Option<BTreeMap<String, Value>>, DiffError> {
        let Some(path) = RelPath::new(self.at("packed-refs")) else { return Ok(None) };
        Ok(match self.inside.view.record.origin(&path)? {
            Origin::Absent | Origin::Perhaps => Some(BTreeMap::new()),
            Origin::There(_) => self.inside.view.record.ancestor(&path)?.map(|text| packed(&text)),
            Origin::Unknown => None,
        })
    }

    /// The value of a ref when the session began, where that is known: from its file, from
    /// `packed-refs`, or from the last line of its log.
    fn base(
        &self,
        name: &str,
        packed: Option<&BTreeMap<String, Value>>,
    ) -> Result<Base, DiffError> {
        let record = self.inside.view.record;
        let Some(path) = RelPath::new(self.at(name)) else { return Ok(Base::Unknown) };
        match record.origin(&path)? {
            Origin::There(past) if past.kind == Kind::File => {
                let text = record.ancestor(&path)?;
                return Ok(Base::of(text.and_then(|text| Value::parse(&text))));
            }
            Origin::Absent | Origin::Perhaps | Origin::There(_) => {}
            // A ref that the session packed is in `packed-refs` alone.
            Origin::Unknown if self.inside.host_kind(path.as_path())? != Some(Kind::File) => {}
            Origin::Unknown => return Ok(Base::Unknown),
        }
        if let Some(packed) = packed {
            return Ok(Base::Known(packed.get(name).cloned()));
        }
        let Some(log) = RelPath::new(self.at("logs").join(name)) else { return Ok(Base::Unknown) };
        match record.origin(&log)? {
            Origin::There(_) => {
                let text = record.ancestor(&log)?.unwrap_or_default();
                let last = text.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty());
                let id = last.and_then(|line| line.get(41..81)).and_then(Value::parse);
                Ok(Base::of(id))
            }
            _ => Ok(Base::Unknown),
        }
    }

    fn checkout(
        &self,
        prefix: PathBuf,
        invalid: &mut Vec<(PathBuf, String)>,
    ) -> Result<Checkout, DiffError> {
        let mut found = Checkout { prefix, ..Checkout::default() };
        let linked = !found.prefix.as_os_str().is_empty();
        if linked && self.inside.host_kind(&self.at(found.prefix.join("gitdir")))?.is_none() {
            // `git worktree add` made it: the host has no such checkout.
            return Ok(found);
        }
        let head = found.prefix.join("HEAD");
        let parse = |text: Option<Vec<u8>>| text.and_then(|text| Value::parse(&text));
        found.on_host = parse(self.inside.on_host(&self.at(&head), MAX_LINE)?);
        found.inside = parse(self.inside.file(&self.at(&head), MAX_LINE)?);
        if let Some(change) = self.change(&head) {
            match found.inside.clone().filter(is_head) {
                after if after.is_some() && after == found.on_host => {}
                Some(after) => {
                    let before = found.on_host.clone();
                    found.head = Some(HeadChange { before, after, moved: change.meanwhile });
                }
                None => invalid.push((head, "names neither a branch nor a commit".into())),
            }
        }
        found.commit = match &found.inside {
            Some(Value::Symbolic(name)) => self.in_session(name)?,
            value => value.clone(),
        };
        found.index = self.index(&found.prefix)?;
        Ok(found)
    }

    /// The value of a ref in the session.
    fn in_session(&self, name: &str) -> Result<Option<Value>, DiffError> {
        let loose = self.inside.file(&self.at(name), MAX_LINE)?;
        if let Some(value) = loose.and_then(|text| Value::parse(&text)) {
            return Ok(Some(value));
        }
        let text = self.inside.file(&self.at("packed-refs"), MAX_REFS)?.unwrap_or_default();
        Ok(packed(&text).remove(name))
    }

    fn index(&self, prefix: &Path) -> Result<Option<IndexChange>, DiffError> {
        let path = prefix.join("index");
        let Some(change) = self.change(&path) else { return Ok(None) };
        let host = self.inside.on_host(&self.at(&path), MAX_INDEX)?;
        let read = host.as_deref().map(Index::parse);
        let session = self.inside.file(&self.at(&path), MAX_INDEX)?;
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
            (_, Some(None)) => found.stays = Some("the host's cannot be read".into()),
            (Some(Some(index)), _) => found.session = index,
        }
        found.count = found.session.differs(&found.host).len();
        if found.session.is_unmerged() {
            found.stays = Some("a merge is not finished in the session".into());
        }
        Ok((found.count > 0).then_some(found))
    }
}

/// Returns true when git takes this for the content of `HEAD`.
fn is_head(value: &Value) -> bool {
    match value {
        Value::Id(_) => true,
        Value::Symbolic(name) => name.starts_with("refs/heads/"),
    }
}
