//! Protection of repositories and of agent-sandbox's own files, and the input of the scan after the run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sandbox_git::protect::{self as git, GitProtection, ProtectError};
use sandbox_linux::file;

use super::{Guarded, Mount, View};
use crate::inspect::Known;
use crate::specificity::{Decision, Decisions};
use crate::wrapper::Commands;
use sandbox_policy::config::{Access, Config, Layer, Origin};
use sandbox_policy::host::Host;
use sandbox_policy::path::resolve::Resolver;
use sandbox_policy::path::{Kind, Matched, Resolved};
use sandbox_policy::preset::Presets;

/// Adds the rules of `@git`, which depend on the repositories in the writable directories.
pub(super) fn git(
    host: &Host,
    presets: &Presets,
    roots: &[PathBuf],
    known: &Known,
    rules: &mut Vec<Resolved>,
) -> Result<GitProtection, ProtectError> {
    if !presets.has("@git") {
        return Ok(GitProtection::default());
    }
    let strict = presets.has("@git-strict");
    let budget = if known.complete { git::REPEATED_SCAN } else { git::FIRST_SCAN };
    let found = git::discover(host, roots, strict, &known.repositories, budget)?;
    let name = if strict { "@git-strict" } else { "@git" };
    let with = |access: Access| move |path: &PathBuf| exact(path, access, Origin::Preset(name));
    rules.extend(found.read_only.iter().filter_map(with(Access::Ro)));
    rules.extend(found.writable.iter().filter_map(with(Access::Rw)));
    Ok(found)
}

/// Makes configuration files below the writable directories read-only, because a run there would read them. Returns
/// all of them, to be compared after the run.
pub(super) fn nested_policies(
    git: &GitProtection,
    known: &Known,
    rules: &mut Vec<Resolved>,
) -> Vec<PathBuf> {
    let found: BTreeSet<&PathBuf> = git.policies.iter().chain(&known.policies).collect();
    let mut policies = Vec::new();
    for path in found {
        let Ok(meta) = fs::symlink_metadata(path) else { continue };
        if meta.is_dir() {
            continue;
        }
        policies.push(path.clone());
        // A rule about the target of a link could show a file that is hidden.
        if meta.is_file() && !is_hidden(path, rules) {
            rules.extend(exact(path, Access::Ro, Origin::Default));
        }
    }
    policies
}

fn is_hidden(path: &Path, rules: &[Resolved]) -> bool {
    let hides = |rule: &Resolved| rule.access == Access::Exclude && path.starts_with(&rule.path);
    rules.iter().any(hides)
}

/// Returns the directories that the user made writable for work: neither caches nor the state of agents.
pub(super) fn writable_roots(rules: &[Resolved]) -> Vec<PathBuf> {
    let is_work = |origin: &Origin| !matches!(origin, Origin::Preset(name) if *name != "@base");
    let mut roots: Vec<PathBuf> = rules
        .iter()
        .filter(|rule| rule.access == Access::Rw && rule.kind == Kind::Dir && is_work(&rule.origin))
        .map(|rule| rule.path.clone())
        .collect();
    let mut seen = std::collections::HashSet::new();
    roots.retain(|root| seen.insert(root.clone()));
    roots
}

fn exact(path: &PathBuf, access: Access, origin: Origin) -> Option<Resolved> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let kind = if metadata.is_dir() { Kind::Dir } else { Kind::File };
    let pattern = path.display().to_string();
    Some(Resolved {
        path: path.clone(),
        kind,
        access,
        matched: Matched::Exact,
        origin,
        pattern,
        links: Vec::new(),
    })
}

/// Adds rules that protect the files on which sandboxes depend from being written inside one: configuration, wrapper
/// scripts, this binary and bubblewrap.
pub(super) fn protect_ourselves(
    host: &Host,
    config: &Config,
    commands: &Commands,
    resolver: &mut Resolver,
    rules: &mut Vec<Resolved>,
) {
    let mut paths: Vec<PathBuf> = config.files.clone();
    paths.extend(commands.scripts.iter().cloned());
    paths.push(host.exe.clone());
    paths.extend(host.search_path().iter().map(|dir| dir.join("bwrap")));
    for path in paths {
        let place = resolver.place(&path);
        if place.kind != Kind::Missing {
            rules.extend(exact(&place.path, Access::Ro, Origin::Default));
        }
    }
    // The state directory holds trust decisions and records. It may lie outside the read-only home.
    if let Some(state) = host.state_dir() {
        let place = resolver.place(&state);
        if place.kind == Kind::Dir {
            rules.extend(exact(&place.path, Access::Exclude, Origin::Default));
        }
    }
    // The data directory holds the layers of sessions. A sandbox must not see the changes of another one.
    if let Some(data) = host.data_dir() {
        let place = resolver.place(&data);
        if place.kind == Kind::Dir {
            rules.extend(exact(&place.path, Access::Exclude, Origin::Default));
        }
    }
}

/// Returns what the scan at the end of the run needs to know.
pub(super) fn guarded(
    config: &Config,
    decisions: &Decisions,
    roots: Vec<PathBuf>,
    git: GitProtection,
    policies: Vec<PathBuf>,
) -> Guarded {
    let must_not_appear = |decision: &&Decision| {
        let rule = &decision.rule;
        rule.kind == Kind::Missing
            && rule.access == Access::Ro
            && rule.origin.layer() > Layer::Builtin
    };
    // The user's configuration directory is protected by a rule if it exists, and cannot appear unless a directory
    // above it is writable.
    let could_appear = |path: &PathBuf| roots.iter().any(|root| path.starts_with(root));
    let mut files: Vec<PathBuf> = config
        .files
        .iter()
        .map(|path| with_real_parent(path))
        .filter(|path| could_appear(path) && !path.is_dir())
        .collect();
    files.extend(policies);
    files.extend(
        decisions.iter().filter(must_not_appear).map(|decision| decision.rule.path.clone()),
    );
    files.sort();
    files.dedup();
    Guarded { roots, git, files }
}

fn with_real_parent(path: &Path) -> PathBuf {
    let parent = path.parent().and_then(|parent| file::real(parent).ok());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.to_path_buf(),
    }
}

/// Returns the protected files. The kernel removes a mount when the host unlinks or replaces the file under it
/// (`mount_namespaces(7)`), so these are watched and protected again.
pub(super) fn watched(mounts: &[Mount]) -> Vec<PathBuf> {
    let guarded = mounts.iter().filter(|mount| {
        mount.kind == Kind::File
            && mount.source == mount.target
            && matches!(mount.view, View::ReadOnly | View::EmptyFile)
    });
    guarded.map(|mount| mount.target.clone()).collect()
}
