//! Search for repositories: at the roots, above them, at known paths, and below within a time limit.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use sandbox_linux::tree::{Dir, Kind};
use sandbox_linux::walk::{self, Budget, Enter, Guide, Verdict, Visited};

use super::files::{is_dot_git, is_git_shape, lstat};
use super::pointer::{self, Followed, Trust};
use super::{GitProtection, ProtectError, Repo, RepoKind};
use sandbox_policy::Host;
use sandbox_policy::config::PROJECT_NAMES;

/// Directories with thousands of third-party files, scanned last.
pub const LARGE_DIRS: [&str; 12] = [
    "node_modules",
    "target",
    ".venv",
    "venv",
    "site-packages",
    "__pycache__",
    ".tox",
    ".gradle",
    ".cache",
    "dist",
    "build",
    "Pods",
];

/// Path that a setting names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) path: PathBuf,
    /// True for a directory of hooks.
    pub(super) hooks: bool,
}

/// The state of a discovery.
pub(super) struct Search<'a> {
    pub(super) host: &'a Host,
    pub(super) roots: &'a [PathBuf],
    pub(super) strict: bool,
    pub(super) out: GitProtection,
    pub(super) read_only: BTreeSet<PathBuf>,
    pub(super) pins: BTreeSet<PathBuf>,
    pub(super) absent: BTreeSet<PathBuf>,
    pub(super) watched: BTreeSet<PathBuf>,
    /// Paths that the user's own settings name relative to each work tree.
    pub(super) everywhere: Vec<Reference>,
    /// For a git directory inside another one, the directory at which its pins end.
    tops: BTreeMap<PathBuf, PathBuf>,
    seen: BTreeSet<PathBuf>,
}

impl<'a> Search<'a> {
    pub(super) fn new(host: &'a Host, roots: &'a [PathBuf], strict: bool) -> Self {
        Self {
            host,
            roots,
            strict,
            out: GitProtection::default(),
            read_only: BTreeSet::new(),
            pins: BTreeSet::new(),
            absent: BTreeSet::new(),
            watched: BTreeSet::new(),
            everywhere: Vec::new(),
            tops: BTreeMap::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Adds the repository of a writable directory.
    pub(super) fn root(&mut self, root: &Path) -> Result<(), ProtectError> {
        self.entry(&root.join(".git"), Trust::PointsBack)?;
        if is_git_shape(root) { self.bare(root) } else { Ok(()) }
    }

    /// Opens the git directory of the repository that encloses the work directory. If it cannot be opened, protects the
    /// files in a root that its settings name.
    pub(super) fn enclosing(&mut self, work: &Path) -> Result<(), ProtectError> {
        for dir in work.ancestors().skip(1) {
            let entry = dir.join(".git");
            // Git ignores a directory of this name that is not a repository.
            let Some(meta) = lstat(&entry).filter(|meta| !meta.is_dir() || is_git_shape(&entry))
            else {
                continue;
            };
            if self.is_writable(&entry) {
                continue;
            }
            let Some(followed) = pointer::follow(&entry) else { continue };
            let own = lstat(&work.join(".git")).is_some() || is_git_shape(work);
            if own || !pointer::may_enclose(&followed.repo, work, &meta, self.host) {
                let repo = Repo { kind: RepoKind::Enclosing, ..followed.repo };
                return self.references(&repo);
            }
            return self.open_enclosing(followed);
        }
        Ok(())
    }

    /// Makes the git directory of an enclosing repository writable, with the protection of a repository in a root.
    fn open_enclosing(
        &mut self,
        Followed { repo, links, .. }: Followed,
    ) -> Result<(), ProtectError> {
        let granted = if repo.kind == RepoKind::Plain {
            Ok(repo.common_dir.clone())
        } else {
            pointer::grant(&repo, self.host.home.as_deref())
        };
        match granted {
            Ok(dir) => {
                self.out.writable.push(dir);
                self.out.enclosing.clone_from(&repo.work_tree);
            }
            Err(refused) => {
                self.out.refused.push(refused);
                return self.references(&Repo { kind: RepoKind::Enclosing, ..repo });
            }
        }
        self.links(links);
        self.main_checkout(&repo);
        self.repository(repo)
    }

    /// Adds a `.git` entry or the directory of a bare repository.
    pub(super) fn entry(&mut self, entry: &Path, trust: Trust) -> Result<(), ProtectError> {
        if self.seen.contains(entry) || lstat(entry).is_none() {
            return Ok(());
        }
        if !entry.file_name().is_some_and(is_dot_git) {
            return if is_git_shape(entry) { self.bare(entry) } else { Ok(()) };
        }
        self.seen.insert(entry.to_path_buf());
        let Some(Followed { repo, links, pointer }) = pointer::follow(entry) else {
            return Ok(());
        };
        self.links(links);
        if let Some(pointer) = pointer {
            self.protect_existing(pointer, None);
        }
        let granted = trust == Trust::PointsBack && !self.is_writable(&repo.common_dir);
        let granted = granted && matches!(repo.kind, RepoKind::Worktree | RepoKind::Pointer);
        if granted {
            match pointer::grant(&repo, self.host.home.as_deref()) {
                Ok(dir) => {
                    self.out.writable.push(dir);
                    self.main_checkout(&repo);
                }
                Err(refused) => self.out.refused.push(refused),
            }
        }
        self.repository(repo)
    }

    fn bare(&mut self, dir: &Path) -> Result<(), ProtectError> {
        let common_dir = pointer::common_dir(dir).unwrap_or_else(|| dir.to_path_buf());
        self.repository(Repo {
            entry: dir.to_path_buf(),
            git_dir: dir.to_path_buf(),
            common_dir,
            work_tree: None,
            kind: RepoKind::Bare,
        })
    }

    /// Adds a repository and the submodules inside its git directory.
    pub(super) fn repository(&mut self, repo: Repo) -> Result<(), ProtectError> {
        let fresh = repo.git_dir == repo.entry || self.seen.insert(repo.git_dir.clone());
        if self.out.repos.contains(&repo) {
            return Ok(());
        }
        if fresh {
            self.protect(&repo)?;
            self.modules(&repo.git_dir)?;
            if repo.common_dir != repo.git_dir && self.seen.insert(repo.common_dir.clone()) {
                self.modules(&repo.common_dir)?;
            }
        }
        self.out.repos.push(repo);
        Ok(())
    }

    /// Adds the submodules `modules/NAME`. A name may contain slashes, and a module may contain further
    /// modules.
    fn modules(&mut self, git_dir: &Path) -> Result<(), ProtectError> {
        let mut budget = 512;
        let found = module_dirs(git_dir, &mut budget);
        self.out.stopped_early |= budget == 0;
        let top = self.top(git_dir);
        for git_dir in found {
            self.tops.insert(git_dir.clone(), top.clone());
            let tree = pointer::module_work_tree(&git_dir);
            if let Some(tree) = tree.as_deref().filter(|tree| self.is_writable(tree)) {
                let entry = tree.join(".git");
                if lstat(&entry).is_some_and(|meta| meta.is_file()) {
                    self.seen.insert(entry.clone());
                    self.protect_existing(entry, None);
                }
            }
            self.repository(Repo {
                entry: git_dir.clone(),
                common_dir: git_dir.clone(),
                git_dir,
                work_tree: tree,
                kind: RepoKind::Module,
            })?;
        }
        Ok(())
    }

    /// Searches below the roots within the budget.
    pub(super) fn nested(&mut self, budget: Budget) -> Result<(), ProtectError> {
        let start = std::time::Instant::now();
        self.out.searched = true;
        let mut entries = budget.entries;
        for root in self.roots {
            let Ok(dir) = Dir::open(root) else { continue };
            let mut repos = [Repos { root, found: Vec::new(), policies: Vec::new() }];
            let time = budget.time.saturating_sub(start.elapsed());
            let extent = walk::walk(&dir, Budget { time, entries }, &mut repos);
            entries = entries.saturating_sub(extent.entries);
            self.out.stopped_early |= extent.stopped_early;
            let [Repos { found, policies, .. }] = repos;
            self.out.policies.extend(policies);
            for entry in found {
                self.entry(&entry, Trust::Nothing)?;
            }
        }
        Ok(())
    }

    /// Returns the directory below which all parents of a git directory's files are pinned.
    pub(super) fn top(&self, git_dir: &Path) -> PathBuf {
        let parent = || git_dir.parent().unwrap_or(git_dir).to_path_buf();
        self.tops.get(git_dir).cloned().unwrap_or_else(parent)
    }

    /// Returns true when a sandbox may write there.
    pub(super) fn is_writable(&self, path: &Path) -> bool {
        let mut places = self.roots.iter().chain(&self.out.writable);
        places.any(|place| path.starts_with(place))
    }
}

/// Returns the git directories below `modules`.
pub fn module_dirs(git_dir: &Path, budget: &mut usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![git_dir.join("modules")];
    while let Some(dir) = todo.pop() {
        // Symlinks are not followed: git does not create any there.
        let Ok(entries) = Dir::open(&dir).and_then(|dir| dir.entries()) else { continue };
        for (name, kind) in entries {
            let path = dir.join(&name);
            if kind != Kind::Dir || *budget == 0 {
                continue;
            }
            *budget -= 1;
            if is_git_shape(&path) || lstat(&path.join("config")).is_some() {
                todo.push(path.join("modules"));
                found.push(path);
            } else {
                todo.push(path);
            }
        }
    }
    found
}

/// Returns true for the name of a project's configuration. A directory of that name is not read.
pub fn is_policy(name: &OsStr, kind: Kind) -> bool {
    kind != Kind::Dir && PROJECT_NAMES.iter().any(|policy| name == *policy)
}

struct Repos<'a> {
    root: &'a Path,
    found: Vec<PathBuf>,
    policies: Vec<PathBuf>,
}

impl Guide for Repos<'_> {
    type Mark = ();

    fn entry(&mut self, _: &Visited<()>, name: &OsStr, kind: Kind) -> Verdict<()> {
        let dot_git = is_dot_git(name);
        let enter = match name.to_str() {
            _ if dot_git => Enter::Never,
            Some(text) if LARGE_DIRS.contains(&text) => Enter::Last(()),
            _ => Enter::Soon(()),
        };
        Verdict { keep: dot_git || name == "HEAD" || is_policy(name, kind), enter }
    }

    fn visit(&mut self, _: &Dir, place: &Visited<()>, kept: &[(OsString, Kind)]) {
        let here = place.below(self.root);
        for (name, kind) in kept {
            if is_policy(name, *kind) {
                self.policies.push(here.join(name));
                continue;
            }
            let bare = name == "HEAD" && is_git_shape(&here);
            if bare {
                self.found.push(here.clone());
            } else if name != "HEAD" {
                self.found.push(here.join(name));
            }
        }
    }
}
