//! Sorting of a root's changes into files and repositories.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sandbox_git::changes::{ChangedPath, Sources, find};
use sandbox_git::layout::{belongs, is_template, may_lie_in_git_dir};
use sandbox_git::locate::Locator;
use sandbox_linux::tree;

use super::repository::Repository;
use super::sources::{HostFiles, RecordedFiles, SessionFiles};
use crate::diff::{Change, DiffError, Side, View};

/// Changes of a root, in files and repositories.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    /// Files, links and directories.
    pub files: Vec<Change>,
    /// Repositories.
    pub repositories: Vec<Repository>,
}

/// Separates the changes of files from those of repositories. A repository with equal refs, `HEAD` and index has no
/// change.
pub(crate) fn sort(view: &View<'_>, changes: &[Change]) -> Result<Sorted, DiffError> {
    if !changes.iter().any(|change| may_lie_in_git_dir(change.path.as_path())) {
        return Ok(Sorted { files: changes.to_vec(), repositories: Vec::new() });
    }
    let (session, host) = (SessionFiles::new(*view)?, HostFiles(view.host));
    let base = RecordedFiles(view.record);
    let sources = Sources { session: &session, host: &host, base: &base };
    let mut locator = Locator::new(&session, &host);
    let (mut sorted, mut members) = (Sorted::default(), BTreeMap::<PathBuf, Vec<Member>>::new());
    for change in changes {
        match locator.locate(change.path.as_path())? {
            Some(located) => {
                let member = Member { inner: located.inner, change: change.clone() };
                members.entry(located.git_dir).or_default().push(member);
            }
            None => sorted.files.push(change.clone()),
        }
    }
    for (dir, members) in members {
        let (repository, files) = read(dir, members, &sources)?;
        sorted.files.extend(files);
        sorted.repositories.extend(repository);
    }
    sorted.files.sort_by(|one, two| one.path.cmp(&two.path));
    Ok(sorted)
}

/// Change of a path in a git directory.
struct Member {
    inner: PathBuf,
    change: Change,
}

impl Member {
    /// Returns true when a change is applied with the repository.
    fn is_applied_with(&self, repository_is_new: bool) -> bool {
        belongs(&self.inner)
            || self.change.is_of_directory()
            || (repository_is_new && is_template(&self.inner))
    }
}

impl From<Member> for ChangedPath {
    fn from(Member { inner, change }: Member) -> Self {
        let kind = |side: Option<Side>| {
            Some(match side? {
                Side::File { .. } => tree::Kind::File,
                Side::Symlink { .. } => tree::Kind::Link,
                Side::Dir => tree::Kind::Dir,
                Side::Special => tree::Kind::Special,
            })
        };
        let (before, after) = (kind(change.before), kind(change.after));
        Self { inner, before, after, meanwhile: change.meanwhile }
    }
}

/// Reads the changes of one repository. Also returns those that are applied file by file.
fn read(
    dir: PathBuf,
    members: Vec<Member>,
    sources: &Sources<'_, DiffError>,
) -> Result<(Option<Repository>, Vec<Change>), DiffError> {
    let head = dir.join("HEAD");
    let is_new = sources.host.kind(&head)?.is_none();
    if !is_new && sources.session.kind(&head)?.is_none() {
        let list = members.into_iter().map(|member| member.change);
        let (gone, files) = list.partition(|change| change.after.is_none());
        return Ok((Some(Repository { dir, gone, ..Repository::default() }), files));
    }
    let (members, files): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|member| member.is_applied_with(is_new));
    let files = files.into_iter().map(|member| member.change).collect();
    let members: Vec<ChangedPath> = members.into_iter().map(ChangedPath::from).collect();
    let changes = find(sources, &dir, &members, is_new)?;
    let found = Repository { dir, is_new, gone: Vec::new(), changes };
    Ok(((!found.is_empty()).then_some(found), files))
}
