//! Which bubblewrap: never one that a sandbox could have put there.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::host::Host;
use crate::plan::{Plan, View};

/// A bubblewrap that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bwrap {
    /// Where it is, free of symlinks.
    pub path: PathBuf,
    /// Whether it runs with root's rights for everybody.
    pub setuid: bool,
}

/// No bubblewrap to be had.
#[derive(Debug, Error)]
pub enum FindError {
    /// Not installed.
    #[error("bwrap is not in PATH")]
    Missing,
    /// Only in places that cannot be trusted.
    #[error("the only bwrap is `{}`, in a place that a sandboxed command can write", .0.display())]
    Untrusted(PathBuf),
}

impl FindError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing => "install with: apt install bubblewrap".into(),
            Self::Untrusted(_) => "install the distribution's: apt install bubblewrap".into(),
        }
    }
}

/// Searches `$PATH`, then the usual places: an agent's `PATH` may lack them.
pub fn find(host: &Host, plan: Option<&Plan>) -> Result<Bwrap, FindError> {
    let mut dirs = host.search_path();
    dirs.extend(["/usr/bin", "/bin", "/usr/local/bin"].map(PathBuf::from));
    let mut untrusted = None;
    for path in dirs.iter().filter_map(|dir| fs::canonicalize(dir.join("bwrap")).ok()) {
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let mode = metadata.permissions().mode();
        if !metadata.is_file() || mode & 0o111 == 0 {
            continue;
        }
        let foreign = metadata.uid() != 0 && metadata.uid() != host.uid && !host.inside;
        if foreign
            || mode & 0o022 != 0
            || plan.is_some_and(|plan| writable_inside(host, plan, &path))
        {
            untrusted.get_or_insert(path);
            continue;
        }
        return Ok(Bwrap { path, setuid: mode & 0o4000 != 0 && metadata.uid() == 0 });
    }
    Err(untrusted.map_or(FindError::Missing, FindError::Untrusted))
}

/// Whether the directory of a program is writable inside the sandbox that it is to build. The
/// file itself is protected by a mount of its own, but an earlier sandbox may have had no such rule.
fn writable_inside(host: &Host, plan: &Plan, path: &Path) -> bool {
    let Some(dir) = path.parent() else { return false };
    let at = |dir| plan.mounts.iter().find(|mount| mount.target == dir && mount.view != View::Pin);
    match dir.ancestors().find_map(at) {
        Some(mount) => mount.view == View::ReadWrite,
        // Where everything was opened, it is up to the permissions.
        None => plan.root_writable && dir.ancestors().any(|dir| may_write(host, dir)),
    }
}

fn may_write(host: &Host, dir: &Path) -> bool {
    sandbox_linux::file::writable(dir)
        || fs::metadata(dir).is_ok_and(|metadata| metadata.uid() == host.uid)
}
