//! Overlay on the home directory that hides paths, also those that do not exist yet.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_linux::file;
use serde::Serialize;

use super::{Mount, View, nearest};
use crate::specificity::Decisions;
use sandbox_policy::config::Access;
use sandbox_policy::host::Host;
use sandbox_policy::path::resolve::{ResolvedPath, Resolver};
use sandbox_policy::path::{Kind, upward};
use sandbox_policy::preset::Presets;

/// Overlay on the home directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HomeOverlay {
    /// The home directory, free of symlinks.
    pub dir: PathBuf,
    /// Paths below it that do not exist and stay hidden if they appear later.
    pub missing: Vec<PathBuf>,
    /// Writable files below it.
    pub files: Vec<PathBuf>,
}

/// Returns the overlay, if one can hide everything in the home directory. That is so if the home directory is
/// read-only, no other file system is mounted in it, and no outer sandbox has an overlay there already.
pub(super) fn decide(
    host: &Host,
    presets: &Presets,
    decisions: &Decisions,
    mounts: &[Mount],
    home: Option<&ResolvedPath>,
    resolver: &Resolver,
) -> Option<HomeOverlay> {
    let dir = home.filter(|_| presets.has("@secrets") && !host.inside)?.path.clone();
    let decision = decisions.at(&dir)?;
    if decision.rule.access != Access::Ro || has_mounts_below(&dir) {
        return None;
    }
    let missing = decisions
        .iter()
        .filter(|decision| {
            decision.rule.kind == Kind::Missing && decision.rule.access == Access::Exclude
        })
        .filter_map(|decision| first_missing(&dir, &decision.rule.path, resolver))
        .filter(|path| {
            path.parent() == Some(&dir)
                || decisions.covering(path).is_some_and(|covering| covering.rule.path == dir)
        });
    let mut missing: Vec<PathBuf> = missing.collect();
    missing.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    missing.dedup();
    Some(HomeOverlay { files: writable_files(mounts, &dir), dir, missing })
}

/// Returns the writable files whose directories are read-only.
fn writable_files(mounts: &[Mount], dir: &Path) -> Vec<PathBuf> {
    let is_regular = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let files = mounts.iter().filter(|mount| {
        let above = mount.target.parent().and_then(|parent| nearest(mounts, parent));
        mount.view == View::ReadWrite
            && mount.source == mount.target
            && mount.target.starts_with(dir)
            && above.is_none_or(|above| dir.starts_with(&above.target))
            && is_regular(&mount.target)
    });
    files.map(|mount| mount.target.clone()).collect()
}

/// Returns the topmost path below `dir`, at or above `path`, that does not exist.
pub(super) fn first_missing(dir: &Path, path: &Path, resolver: &Resolver) -> Option<PathBuf> {
    if path == dir || !path.starts_with(dir) {
        return None;
    }
    let mut first = path.as_os_str();
    // Resolving the rule's path has cached every directory on the way.
    for parent in upward(path).skip(1).take_while(|parent| parent.len() >= dir.as_os_str().len()) {
        match resolver.is_dir(parent) {
            Some(true) => break,
            Some(false) => first = parent,
            None => return lookup(dir, path.strip_prefix(dir).ok()?),
        }
    }
    Some(first.into())
}

fn lookup(dir: &Path, below: &Path) -> Option<PathBuf> {
    let mut at = dir.to_path_buf();
    for part in below.components() {
        at.push(part);
        if let Err(error) = fs::symlink_metadata(&at) {
            // Any other error needs no mask: nothing can appear below a regular file (ENOTDIR), and the command
            // cannot search a directory that the user cannot search (EACCES).
            return (error.kind() == io::ErrorKind::NotFound).then_some(at);
        }
    }
    None
}

fn has_mounts_below(dir: &Path) -> bool {
    mount_below(dir).is_some()
}

/// Returns the first mount point below a directory, if there is one.
pub fn mount_below(dir: &Path) -> Option<PathBuf> {
    let table = file::kernel_text("/proc/self/mountinfo").unwrap_or_default();
    let mut points = table.lines().filter_map(|line| line.split(' ').nth(4));
    // The kernel escapes spaces, tabs and backslashes as octal, see getmntent(3).
    let dir =
        dir.to_string_lossy().replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011");
    let point = points
        .find(|point| point.strip_prefix(dir.as_str()).is_some_and(|rest| rest.starts_with('/')))?;
    Some(PathBuf::from(point))
}
