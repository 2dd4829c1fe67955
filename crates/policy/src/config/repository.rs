//! The repository that `--repo` makes writable.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox_linux::file;

use super::{Access, ConfigError, Origin, PathRule, Sourced};
use crate::Host;

/// Returns the nearest directory from `cwd` upwards that contains a repository.
///
/// Only the position of `.git` counts: a `.git` file or a setting could name any directory as the work tree. So the
/// result is never more than the directories above `cwd`.
pub(super) fn root(host: &Host, cwd: &Path) -> Result<PathBuf, ConfigError> {
    let root = cwd.ancestors().find(|dir| is_repository(dir));
    let root = root.ok_or_else(|| ConfigError::NoRepository { cwd: cwd.to_path_buf() })?;
    let refused = |why| ConfigError::Repository { root: root.to_path_buf(), why };
    let home = host.home.as_deref().and_then(|home| file::real(home).ok());
    if root == Path::new("/") || home.is_some_and(|home| home.starts_with(root)) {
        return Err(refused("it contains the home directory"));
    }
    let owner = |path: &Path| fs::symlink_metadata(path).map(|meta| meta.uid());
    let own = |path: &Path| owner(path).is_ok_and(|uid| uid == host.uid);
    if root != cwd && !(own(root) && own(&root.join(".git"))) {
        return Err(refused("it belongs to another user"));
    }
    Ok(root.to_path_buf())
}

/// Returns true when git finds a repository in a directory. Git ignores a directory `.git` without `HEAD`.
fn is_repository(dir: &Path) -> bool {
    let entry = dir.join(".git");
    fs::symlink_metadata(&entry)
        .is_ok_and(|meta| !meta.is_dir() || fs::symlink_metadata(entry.join("HEAD")).is_ok())
}

/// Returns the rule of the flag.
pub(super) fn rule(root: &Path) -> Sourced<PathRule> {
    let rule = PathRule { base: Some(Arc::from(root)), ..PathRule::new(Access::Rw, ".") };
    Sourced::new(rule, Origin::Flag("--repo".to_owned()))
}
