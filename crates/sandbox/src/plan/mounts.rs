//! Turns decisions into mounts: one for each rule that changes a view, pins for directories that must not be renamed,
//! and the paths that every sandbox needs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::{BaseView, Mount, PlanError, ResolverFile, View, sockets};
use crate::specificity::Decisions;
use crate::wrapper::Commands;
use sandbox_git::protect::GitProtection;
use sandbox_linux::file::BeyondRoot;
use sandbox_policy::config::{Access, BindMount, Config, Network, Origin, Sourced, Tmp};
use sandbox_policy::host::Host;
use sandbox_policy::path::pattern::clean;
use sandbox_policy::path::resolve::Resolver;
use sandbox_policy::path::{Kind, Resolved, upward};
use sandbox_protocol::layout::RUNTIME_DIR;

/// View of a path by the mounts collected so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Writable,
    ReadOnly,
    Empty,
    Own,
}

/// Mounts collected so far, by target, and what determines the view of the paths between them.
struct Builder {
    tmp: Tmp,
    root_writable: bool,
    mounts: BTreeMap<OsString, Mount>,
    beyond_root: BeyondRoot,
}

/// Builds all mounts, parents first.
pub(super) fn build(
    host: &Host,
    config: &Config,
    decisions: &Decisions,
    commands: &Commands,
    git: &GitProtection,
    resolver: &mut Resolver,
) -> Result<Vec<Mount>, PlanError> {
    let root = decisions.at(Path::new("/"));
    let root_writable = root.is_some_and(|decision| decision.rule.access == Access::Rw);
    let mut builder = Builder::new(config, root_writable, BTreeMap::new());
    if config.tmp.value == Tmp::Host {
        builder.bind(Path::new("/tmp"), Kind::Dir, View::ReadWrite, &config.tmp.origin);
    }
    for decision in decisions.iter() {
        builder.rule(&decision.rule);
    }
    builder.check_cwd(config, decisions)?;
    for mount in &config.mounts {
        builder.bind_mount(mount, resolver)?;
    }
    for pin in &git.pins {
        builder.pin(pin, &Origin::Preset("@git"));
    }
    builder.pin_ancestors(commands);
    if let Some(socket) = sockets::docker(host, config, resolver)? {
        builder.open_socket(&socket, &config.docker.origin);
    }
    for socket in &config.sockets {
        for path in sockets::open_one(socket, host, config, resolver)? {
            builder.open_socket(&path, &socket.origin);
        }
    }
    builder.resolver_configuration(config.network.value, resolver);
    Ok(builder.finish())
}

/// Returns the path at which a lookup of `/etc/resolv.conf` ends, to put a replacement there.
pub(super) fn resolver_file(
    config: &Config,
    root_writable: bool,
    mounts: &[Mount],
    resolver: &mut Resolver,
) -> Option<ResolverFile> {
    let mounts = mounts.iter().map(|mount| (mount.target.clone().into(), mount.clone())).collect();
    let builder = Builder::new(config, root_writable, mounts);
    let path = Path::new("/etc/resolv.conf");
    if let Some(target) = builder.first_empty(path) {
        return Some(ResolverFile { target, create: true });
    }
    // Without the file, programs query a name server on the local machine anyway: resolv.conf(5).
    let end = resolver.place(path);
    (end.kind == Kind::File).then_some(ResolverFile { target: end.path, create: false })
}

impl Builder {
    fn new(config: &Config, root_writable: bool, mounts: BTreeMap<OsString, Mount>) -> Self {
        let tmp = config.tmp.value;
        Self { tmp, root_writable, mounts, beyond_root: BeyondRoot::default() }
    }

    fn state(&self, path: &Path) -> State {
        match upward(path).find_map(|path| self.mounts.get(path)) {
            Some(mount) => match mount.view {
                View::ReadWrite | View::Pin | View::Device => State::Writable,
                View::ReadOnly => State::ReadOnly,
                View::EmptyFile | View::EmptyDir => State::Empty,
            },
            None => match BaseView::of(path, self.tmp) {
                BaseView::Host if self.root_writable => State::Writable,
                BaseView::Host => State::ReadOnly,
                BaseView::Empty => State::Empty,
                BaseView::Own => State::Own,
            },
        }
    }

    fn above(&self, path: &Path) -> State {
        path.parent().map_or(State::Own, |parent| self.state(parent))
    }

    /// Adds the mount for a rule, if it changes the view.
    fn rule(&mut self, rule: &Resolved) {
        let Resolved { path, kind, access, origin, .. } = rule;
        if *kind == Kind::Missing || path == Path::new("/") {
            return;
        }
        // No mount covers exactly this path yet, except the host's `/tmp`.
        let view = match (access, self.state(path)) {
            (Access::Exclude, State::Empty | State::Own)
            | (Access::Ro, State::ReadOnly)
            | (Access::Rw, State::Writable) => return,
            (Access::Exclude, State::ReadOnly) if !is_readable(path) => return,
            (Access::Exclude, _) if is_masked(path) => return,
            (Access::Exclude, _) if *kind == Kind::Dir => View::EmptyDir,
            (Access::Exclude, _) => View::EmptyFile,
            (_, State::Own) => View::Device,
            (Access::Ro, _) => View::ReadOnly,
            (Access::Rw, _) => View::ReadWrite,
        };
        self.bind(path, *kind, view, origin);
    }

    fn bind(&mut self, path: &Path, kind: Kind, view: View, origin: &Origin) {
        // Paths that the command cannot reach from `/` need no mount, and mounting there would fail.
        if view != View::ReadWrite && self.beyond_root.holds(path) {
            return;
        }
        let create = matches!(self.above(path), State::Empty | State::Own);
        let (source, target) = (path.to_path_buf(), path.to_path_buf());
        let mount = Mount { source, target, view, kind, create, origin: origin.clone() };
        self.mounts.insert(path.into(), mount);
    }

    /// Protects a directory in a writable tree from being renamed: a mount point cannot be, rename(2).
    fn pin(&mut self, path: &Path, origin: &Origin) {
        if !self.mounts.contains_key(path.as_os_str()) && self.state(path) == State::Writable {
            self.bind(path, Kind::Dir, View::Pin, origin);
        }
    }

    /// Pins the directories between a read-only path and the writable tree around it. Otherwise the command could
    /// rename one of them and create a new one with other content. A hidden path stays hidden wherever it is moved.
    fn pin_ancestors(&mut self, commands: &Commands) {
        let read_only = self.mounts.values().filter(|mount| mount.view == View::ReadOnly);
        let mut held: Vec<(PathBuf, Origin)> =
            read_only.map(|mount| (mount.target.clone(), mount.origin.clone())).collect();
        held.extend(commands.covers.iter().map(|cover| (cover.target.clone(), Origin::Default)));
        for (path, origin) in held {
            for ancestor in upward(&path).skip(1) {
                match self.mounts.get(ancestor) {
                    Some(mount) if mount.view == View::Pin => {}
                    Some(_) => break,
                    None if ancestor == "/" => break,
                    None => self.pin(Path::new(ancestor), &origin),
                }
            }
        }
    }

    fn check_cwd(&self, config: &Config, decisions: &Decisions) -> Result<(), PlanError> {
        let cwd = &config.cwd;
        if cwd == Path::new("/tmp") && config.tmp.value == Tmp::Private {
            return Err(PlanError::CwdIsTmp);
        }
        match self.state(cwd) {
            State::Writable | State::ReadOnly => Ok(()),
            State::Empty | State::Own => Err(PlanError::CwdHidden {
                cwd: cwd.clone(),
                origin: decisions
                    .covering(cwd)
                    .map_or(Origin::Default, |decision| decision.rule.origin.clone()),
            }),
        }
    }

    fn bind_mount(
        &mut self,
        mount: &Sourced<BindMount>,
        resolver: &mut Resolver,
    ) -> Result<(), PlanError> {
        let BindMount { host, target, access } = &mount.value;
        let refuse = |why| PlanError::Mount {
            origin: mount.origin.clone(),
            host: host.clone(),
            target: target.clone(),
            why,
        };
        let source = resolver.place(host);
        if source.kind == Kind::Missing {
            return Err(refuse("the host path does not exist"));
        }
        let target = resolver.place(&clean(target)).path;
        let own = ["/proc", "/dev", RUNTIME_DIR];
        if target == Path::new("/") || own.iter().any(|dir| target.starts_with(dir)) {
            return Err(refuse("the sandbox manages this path"));
        }
        let create = match self.above(&target) {
            State::Empty | State::Own => true,
            _ if fs::symlink_metadata(&target).is_ok() => false,
            _ if is_new_at_top_level(&target) => true,
            _ => {
                return Err(refuse(
                    "the target does not exist, and can be created only in a new top-level directory, `/tmp` or `/run`",
                ));
            }
        };
        let view = if *access == Access::Rw { View::ReadWrite } else { View::ReadOnly };
        let (kind, origin) = (source.kind, mount.origin.clone());
        self.mounts.insert(
            target.clone().into(),
            Mount { source: source.path, target, view, kind, create, origin },
        );
        Ok(())
    }

    fn open_socket(&mut self, path: &Path, origin: &Origin) {
        if sockets::is_socket(path) {
            self.bind(path, Kind::File, View::ReadWrite, origin);
        }
    }

    /// Mounts the host's resolver configuration. `/etc/resolv.conf` is often a chain of symlinks into `/run`, which is
    /// empty inside, so the file at the end of the chain is mounted where the chain enters `/run`.
    fn resolver_configuration(&mut self, network: Network, resolver: &mut Resolver) {
        let path = Path::new("/etc/resolv.conf");
        let end = resolver.place(path);
        if network != Network::On || end.kind != Kind::File || self.state(&end.path) != State::Empty
        {
            return;
        }
        if let Some(target) = self.first_empty(path) {
            let (source, view, kind) = (end.path, View::ReadOnly, Kind::File);
            let (create, origin) = (true, Origin::Default);
            let mount = Mount { source, target: target.clone(), view, kind, create, origin };
            self.mounts.insert(target.into(), mount);
        }
    }

    /// Returns the first path of a lookup that lies in an empty directory of the sandbox. The lookup ends there,
    /// because the symlinks of the host's directory do not exist inside.
    fn first_empty(&self, path: &Path) -> Option<PathBuf> {
        let mut at = PathBuf::from("/");
        let mut rest = path.to_path_buf();
        // More steps than the kernel follows: it gives up after 40 symlinks, path_resolution(7).
        for _ in 0..256 {
            let mut parts = rest.components();
            match parts.next()? {
                Component::Normal(name) => at.push(name),
                Component::ParentDir => drop(at.pop()),
                _ => at = PathBuf::from("/"),
            }
            let below = parts.as_path();
            if self.state(&at) == State::Empty {
                return Some(clean(&at.join(below)));
            }
            rest = match fs::read_link(&at) {
                Ok(link) => {
                    at.pop();
                    link.join(below)
                }
                Err(_) => below.to_path_buf(),
            };
        }
        None
    }

    fn finish(self) -> Vec<Mount> {
        self.mounts.into_values().collect()
    }
}

/// Returns true if the caller can read a path. Hiding an unreadable path gains nothing and costs a mount.
fn is_readable(path: &Path) -> bool {
    sandbox_linux::file::readable(path)
}

/// Returns true if an outer sandbox hides the path with an unlinked empty file. Nothing is left to hide, and the kernel
/// refuses a mount on an unlinked file (`ENOENT`, mount(2)).
fn is_masked(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.nlink() == 0 && m.len() == 0)
}

fn is_new_at_top_level(target: &Path) -> bool {
    let top = target.ancestors().filter(|path| path.parent() == Some(Path::new("/"))).last();
    top.is_some_and(|top| fs::symlink_metadata(top).is_err())
}

/// Lists the host's top level by name, if a mount needs a new directory there.
pub(super) fn top_level(mounts: &[Mount]) -> Vec<(OsString, Option<PathBuf>)> {
    let is_dir = |path: &str| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    // These are mount points in every sandbox, so they have to exist as directories.
    let is_usual = ["/dev", "/proc", "/run", "/tmp"].into_iter().all(is_dir);
    if is_usual && !mounts.iter().any(|mount| mount.create && is_new_at_top_level(&mount.target)) {
        return Vec::new();
    }
    names_at_top()
}

/// Returns the top-level names of the root and their link targets, for plans that need a private root.
fn names_at_top() -> Vec<(OsString, Option<PathBuf>)> {
    let own = BTreeSet::from(["dev", "proc", "run", "tmp"].map(OsString::from));
    let Ok(entries) = std::fs::read_dir("/") else { return Vec::new() };
    let mut names: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| (entry.file_name(), std::fs::read_link(entry.path()).ok()))
        .filter(|(name, _)| !own.contains(name))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests;
