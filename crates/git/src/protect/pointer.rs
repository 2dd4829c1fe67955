//! Resolution of a `.git` entry to its git directory, with a check that the directory points back.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::files::{is_git_shape, lstat, pointer_path, read, read_path, settle};
use super::{Distrust, Link, Refused, Repo, RepoKind, config};
use sandbox_policy::Host;

/// Trust in a pointer, by where it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is in a directory that the user made writable. A git directory that points back becomes writable
    /// too.
    PointsBack,
    /// It was found by the search.
    Nothing,
}

/// A resolved `.git` entry.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) repo: Repo,
    /// Symlinks on the way.
    pub(super) links: Vec<Link>,
    /// The entry, if it is a file that must not change.
    pub(super) pointer: Option<PathBuf>,
}

/// Resolves a `.git` entry. Returns `None` if git would not find a repository there.
pub(super) fn follow(entry: &Path) -> Option<Followed> {
    let parent = entry.parent()?;
    let mut settled = settle(parent, Path::new(entry.file_name()?))?;
    let meta = settled.exists.then(|| lstat(&settled.path)).flatten()?;
    let mut pointer = None;
    let mut kind = if settled.links.is_empty() { RepoKind::Plain } else { RepoKind::Link };
    if !meta.is_dir() {
        let file = settled.path.clone();
        let named = settle(file.parent()?, &pointer_path(&read(&file, 8192).ok()?)?)?;
        pointer = Some(file);
        settled.links.extend(named.links);
        settled.path = named.path;
        kind = RepoKind::Pointer;
    }
    let git_dir = settled.path;
    let common = common_dir(&git_dir);
    if kind == RepoKind::Pointer && common.is_some() {
        kind = RepoKind::Worktree;
    }
    let common_dir = common.unwrap_or_else(|| git_dir.clone());
    let work_tree = Some(parent.to_path_buf());
    let repo = Repo { entry: entry.to_path_buf(), git_dir, common_dir, work_tree, kind };
    Some(Followed { repo, links: settled.links, pointer })
}

/// Returns the directory that the `commondir` file of a git directory names.
pub(super) fn common_dir(git_dir: &Path) -> Option<PathBuf> {
    let named = settle(git_dir, &read_path(&git_dir.join("commondir"))?)?;
    Some(named.path)
}

/// Returns true when the git directory of a repository around the work directory may become writable. A repository whose
/// top is the home directory or above it holds more than a project. A link could lead anywhere.
pub(super) fn may_enclose(repo: &Repo, work: &Path, entry: &Metadata, host: &Host) -> bool {
    let Some(top) = repo.work_tree.as_deref() else { return false };
    let home = host.home.as_deref().and_then(|home| settle(Path::new("/"), home));
    let holds_home = home.is_some_and(|home| home.path.starts_with(top));
    let same_owner = lstat(work).is_some_and(|work| work.uid() == entry.uid());
    let plain = repo.kind == RepoKind::Plain && repo.common_dir == repo.git_dir;
    let pointer = matches!(repo.kind, RepoKind::Worktree | RepoKind::Pointer);
    !holds_home && same_owner && !work.starts_with(&repo.common_dir) && (plain || pointer)
}

/// Returns the directory that must become writable for git to work here. The sandbox can write the pointer,
/// so the git directory must point back. Writing that requires write access to the git directory.
pub(super) fn grant(repo: &Repo, home: Option<&Path>) -> Result<PathBuf, Refused> {
    let refused = |why| Refused { entry: repo.entry.clone(), git_dir: repo.git_dir.clone(), why };
    if !is_git_shape(&repo.common_dir) || !is_git_shape(&repo.git_dir) {
        return Err(refused(Distrust::NoGitDir));
    }
    let agrees = match repo.kind {
        RepoKind::Worktree => worktree_points_back(repo),
        RepoKind::Pointer => submodule_points_back(repo),
        _ => false,
    };
    if !agrees {
        return Err(refused(Distrust::NoBackPointer));
    }
    let owner = |path: &Path| lstat(path).map(|meta| meta.uid());
    if owner(&repo.common_dir) != repo.work_tree.as_deref().and_then(owner) {
        return Err(refused(Distrust::OtherOwner));
    }
    let holds = |path: Option<&Path>| path.is_some_and(|path| path.starts_with(&repo.common_dir));
    if holds(home) || holds(repo.work_tree.as_deref()) {
        return Err(refused(Distrust::TooWide));
    }
    Ok(repo.common_dir.clone())
}

fn worktree_points_back(repo: &Repo) -> bool {
    let listed = repo.git_dir.parent() == Some(&repo.common_dir.join("worktrees"));
    let back = read_path(&repo.git_dir.join("gitdir"));
    let back = back.and_then(|path| settle(&repo.git_dir, &path));
    listed && back.is_some_and(|back| back.exists && back.path == repo.entry)
}

fn submodule_points_back(repo: &Repo) -> bool {
    module_work_tree(&repo.git_dir).is_some_and(|tree| Some(tree) == repo.work_tree)
}

/// Returns the work tree that a submodule's git directory names.
pub(super) fn module_work_tree(git_dir: &Path) -> Option<PathBuf> {
    let vars = config::parse(&read(&git_dir.join("config"), 1 << 20).ok()?).ok()?;
    let tree = vars.iter().rfind(|var| var.is("core", "worktree") && var.subsection.is_none())?;
    let settled = settle(git_dir, Path::new(tree.text()?))?;
    settled.exists.then_some(settled.path)
}
