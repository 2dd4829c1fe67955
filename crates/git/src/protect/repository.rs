//! Protection of one repository.

use std::io;
use std::path::{Path, PathBuf};

use super::config::{self, Var};
use super::files::{lstat, read, settle};
use super::search::{Reference, Search};
use super::{GitProtection, Link, ProtectError, Repo};

/// Paths in the common directory that git uses: settings, programs, and sources of objects.
const OBEYED: [&str; 6] = [
    "config",
    "hooks",
    "info/attributes",
    "info/grafts",
    "objects/info/alternates",
    "objects/info/http-alternates",
];
/// Paths that git uses in each git directory.
const OBEYED_IN_EACH: [&str; 2] = ["commondir", "config.worktree"];
/// Files of the main checkout that other worktrees do not need.
const MAIN_CHECKOUT: [&str; 3] = ["HEAD", "index", "modules"];
/// Maximum depth of includes, as in git.
const MAX_INCLUDES: usize = 10;
const MAX_CONFIG: u64 = 4 << 20;
const MAX_PACKED: u64 = 16 << 20;
const MAX_BRANCHES: usize = 2_000;

impl Search<'_> {
    pub(super) fn protect(&mut self, repo: &Repo) -> Result<(), ProtectError> {
        // The directory of a worktree is inside the common one.
        let top = self.top(&repo.common_dir);
        let obeyed = OBEYED.iter().map(|name| (&repo.common_dir, *name));
        let in_each = OBEYED_IN_EACH.iter().map(|name| (&repo.git_dir, *name));
        for (dir, name) in obeyed.chain(in_each) {
            self.protect_or_watch(dir, Path::new(name), Some(&top));
        }
        self.hooks(&repo.common_dir.join("hooks"));
        if repo.common_dir == repo.git_dir {
            self.other_worktrees(repo);
        } else {
            self.protect_or_watch(&repo.git_dir, Path::new("gitdir"), Some(&top));
            self.protect_or_watch(&repo.common_dir, Path::new("commondir"), Some(&top));
        }
        self.references(repo)?;
        if self.strict { self.branches(repo, &top) } else { Ok(()) }
    }

    /// Keeps everything read-only that belongs to other checkouts, if the repository was opened for one
    /// worktree.
    pub(super) fn main_checkout(&mut self, repo: &Repo) {
        if repo.common_dir == repo.git_dir {
            return;
        }
        for path in MAIN_CHECKOUT.map(|name| repo.common_dir.join(name)) {
            if lstat(&path).is_some() {
                self.mount_read_only(path, None);
            }
        }
        let Ok(entries) = std::fs::read_dir(repo.common_dir.join("worktrees")) else { return };
        for other in entries.flatten().map(|entry| entry.path()) {
            if other != repo.git_dir {
                self.mount_read_only(other, None);
            }
        }
    }

    /// Watches the files that the worktrees of a main repository depend on. The work trees themselves are
    /// elsewhere.
    fn other_worktrees(&mut self, repo: &Repo) {
        let Ok(entries) = std::fs::read_dir(repo.git_dir.join("worktrees")) else { return };
        for worktree in entries.flatten().take(256).map(|entry| entry.path()) {
            for name in ["commondir", "gitdir", "config.worktree"] {
                self.watch(worktree.join(name));
            }
        }
    }

    fn watch(&mut self, file: PathBuf) {
        match lstat(&file) {
            _ if !self.is_writable(&file) => false,
            Some(_) => self.watched.insert(file),
            None => self.absent.insert(file),
        };
    }

    /// Protects a path that git uses if it exists, and watches for it otherwise.
    fn protect_or_watch(&mut self, base: &Path, path: &Path, pins_below: Option<&Path>) {
        let Some(settled) = settle(base, path) else { return };
        let direct = settled.links.is_empty();
        self.links(settled.links);
        if settled.exists {
            self.protect_existing(settled.path, pins_below.filter(|_| direct));
        } else if self.is_writable(&settled.path) {
            self.absent.insert(settled.path);
        }
    }

    /// Mounts a path read-only, and compares it after the run.
    pub(super) fn protect_existing(&mut self, path: PathBuf, pins_below: Option<&Path>) {
        if self.is_writable(&path) && !self.is_mount(&path) {
            self.watched.insert(path.clone());
        }
        self.mount_read_only(path, pins_below);
    }

    /// Mounts a path read-only, and pins the directories between it and `pins_below`.
    pub(super) fn mount_read_only(&mut self, path: PathBuf, pins_below: Option<&Path>) {
        // A root must stay writable, even if a setting names it.
        if !self.is_writable(&path) || self.is_mount(&path) {
            return;
        }
        let top = pins_below.unwrap_or(&path).to_path_buf();
        for dir in path.ancestors().skip(1) {
            if dir == top || !dir.starts_with(&top) || self.is_mount(dir) {
                break;
            }
            self.pins.insert(dir.to_path_buf());
        }
        self.read_only.insert(path);
    }

    fn is_mount(&self, dir: &Path) -> bool {
        self.roots.iter().chain(&self.out.writable).any(|place| place == dir)
    }

    pub(super) fn links(&mut self, links: Vec<Link>) {
        for link in links {
            if self.is_writable(&link.path) && !self.out.links.contains(&link) {
                self.out.links.push(link);
            }
        }
    }

    fn hooks(&mut self, dir: &Path) {
        if let Some(settled) = settle(Path::new("/"), dir)
            && self.watched.contains(&settled.path)
            && !self.out.hooks.contains(&settled.path)
        {
            self.out.hooks.push(settled.path);
        }
    }

    /// Protects the files and directories that a repository's settings name.
    pub(super) fn references(&mut self, repo: &Repo) -> Result<(), ProtectError> {
        let mut references = self.everywhere.clone();
        for file in [repo.common_dir.join("config"), repo.git_dir.join("config.worktree")] {
            self.collect(&file, 0, &mut references)?;
        }
        let base = repo.work_tree.as_ref().unwrap_or(&repo.git_dir);
        for Reference { path, hooks } in references {
            self.protect_or_watch(base, &path, Some(base));
            if hooks {
                self.hooks(&base.join(path));
            }
        }
        Ok(())
    }

    /// Collects paths from the user's settings, which apply to every repository and may be relative to it.
    pub(super) fn users_config(&mut self) -> Result<(), ProtectError> {
        let home = self.host.home.clone();
        let xdg =
            self.host.config_dir().and_then(|dir| dir.parent().map(|dir| dir.join("git/config")));
        let files =
            [Some(PathBuf::from("/etc/gitconfig")), home.map(|home| home.join(".gitconfig")), xdg];
        let mut references = Vec::new();
        for file in files.into_iter().flatten() {
            self.collect(&file, 0, &mut references)?;
        }
        self.everywhere = references;
        Ok(())
    }

    fn collect(
        &self,
        file: &Path,
        depth: usize,
        into: &mut Vec<Reference>,
    ) -> Result<(), ProtectError> {
        let text = match read(file, MAX_CONFIG) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(ProtectError::ConfigTooLarge { path: file.to_path_buf() });
            }
            Err(_) => return Ok(()),
        };
        // Git also rejects a file that cannot be parsed, before it uses any of it.
        for var in config::parse(&text).unwrap_or_default() {
            let Some(path) = self.named_path(&var) else { continue };
            if matches!(var.section.as_str(), "include" | "includeif") {
                let path = file.parent().unwrap_or(file).join(path);
                if depth < MAX_INCLUDES && into.len() < 256 {
                    self.collect(&path, depth + 1, into)?;
                }
                into.push(Reference { path, hooks: false });
            } else {
                into.push(Reference { path, hooks: var.key == "hookspath" });
            }
        }
        Ok(())
    }

    fn named_path(&self, var: &Var) -> Option<PathBuf> {
        let named = var.is("include", "path")
            || var.is("includeif", "path")
            || var.is("core", "hookspath")
            || var.is("core", "attributesfile")
            || (var.is("core", "fsmonitor") && var.text()?.contains('/'));
        let text = var.text().filter(|text| named && !text.is_empty())?;
        match text.strip_prefix("~/") {
            Some(rest) => Some(self.host.home.as_ref()?.join(rest)),
            None => Some(PathBuf::from(text)),
        }
    }

    /// Protects every branch but the current one, and all tags (`@git-strict`).
    fn branches(&mut self, repo: &Repo, top: &Path) -> Result<(), ProtectError> {
        let current = read(&repo.git_dir.join("HEAD"), 4096).ok().and_then(|head| {
            let head = String::from_utf8(head).ok()?;
            Some(repo.common_dir.join(head.strip_prefix("ref: ")?.trim_end()))
        });
        let heads = repo.common_dir.join("refs/heads");
        let mut count = 0;
        let mut todo = vec![heads.clone()];
        while let Some(dir) = todo.pop() {
            let Ok(entries) = std::fs::read_dir(&dir) else { continue };
            for entry in entries.flatten() {
                let path = entry.path();
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => todo.push(path),
                    _ if Some(&path) == current.as_ref() => {}
                    _ => self.mount_read_only(path, Some(top)),
                }
                count += 1;
                if count > MAX_BRANCHES {
                    return Err(ProtectError::TooManyBranches { heads, limit: MAX_BRANCHES });
                }
            }
        }
        for name in ["refs/tags", "packed-refs"] {
            let path = repo.common_dir.join(name);
            if lstat(&path).is_some() {
                self.mount_read_only(path, Some(top));
            }
        }
        self.packed_branches(&repo.common_dir, current.as_deref());
        Ok(())
    }

    /// Watches for loose refs of packed branches: a new loose ref would override the packed one.
    fn packed_branches(&mut self, common_dir: &Path, current: Option<&Path>) {
        let packed = read(&common_dir.join("packed-refs"), MAX_PACKED).unwrap_or_default();
        let names = packed.split(|byte| *byte == b'\n').filter_map(|line| {
            let name = std::str::from_utf8(line).ok()?.split_once(' ')?.1;
            name.starts_with("refs/heads/").then(|| common_dir.join(name))
        });
        for path in names.take(MAX_BRANCHES) {
            if Some(path.as_path()) != current && lstat(&path).is_none() {
                self.absent.insert(path);
            }
        }
    }

    pub(super) fn finish(self) -> GitProtection {
        let covered =
            |path: &Path| path.ancestors().skip(1).any(|dir| self.read_only.contains(dir));
        let read_only: Vec<_> =
            self.read_only.iter().filter(|path| !covered(path)).cloned().collect();
        let pins = self.pins.iter().filter(|dir| !covered(dir) && !self.read_only.contains(*dir));
        let pins = pins.cloned().collect();
        let absent = self.absent.iter().filter(|path| !covered(path)).cloned().collect();
        let watched = self.watched.iter().cloned().collect();
        GitProtection { read_only, pins, absent, watched, ..self.out }
    }
}
