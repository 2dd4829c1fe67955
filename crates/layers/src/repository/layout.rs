//! Which paths of a git directory mean what.

use std::path::{Path, PathBuf};

use crate::RelPath;
use crate::host::{HostTree, Kind};

const DOT_GIT: &str = ".git";
/// Files at the top of a git directory that say where the repository stands.
const STATE: [&str; 16] = [
    "AUTO_MERGE",
    "CHERRY_PICK_HEAD",
    "COMMIT_EDITMSG",
    "FETCH_HEAD",
    "HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "ORIG_HEAD",
    "REBASE_HEAD",
    "REVERT_HEAD",
    "SQUASH_MSG",
    "gc.log",
    "gc.pid",
    "index",
    "packed-refs",
];

/// The part of a path up to its first `.git`.
pub(crate) fn dot_git(path: &Path) -> Option<&Path> {
    let at = path.iter().position(|name| name == DOT_GIT)?;
    path.ancestors().nth(path.iter().count() - at - 1)
}

/// The git directory on the host that a path lies in.
pub(crate) fn on_host(host: &HostTree, path: &RelPath) -> Option<PathBuf> {
    let path = path.as_path();
    let is = |path: PathBuf, kind: Kind| {
        RelPath::new(path).is_some_and(|path| {
            host.stat(&path).is_ok_and(|found| found.is_some_and(|found| found.kind == kind))
        })
    };
    if let Some(dir) = dot_git(path) {
        return (dir != path).then(|| dir.to_path_buf());
    }
    let shaped = |dir: &Path| {
        is(dir.join("HEAD"), Kind::File)
            && is(dir.join("objects"), Kind::Dir)
            && is(dir.join("refs"), Kind::Dir)
    };
    path.ancestors()
        .skip(1)
        .find(|dir| {
            let inner = path.strip_prefix(dir).unwrap_or(path);
            belongs(inner) && shaped(dir)
        })
        .map(Path::to_path_buf)
}

/// Returns true for an object, or an index over objects.
pub(crate) fn is_object(inner: &Path) -> bool {
    inner.starts_with("objects") && !is_obeyed_object(inner)
}

/// Files that send git elsewhere for objects.
fn is_obeyed_object(inner: &Path) -> bool {
    inner.starts_with("objects/info")
        && inner.file_name().is_some_and(|name| {
            let name = name.to_string_lossy().to_lowercase();
            name.ends_with("alternates")
        })
}

/// The checkout that a path belongs to, empty for the main one, and the path in its directory.
pub(crate) fn checkout(inner: &Path) -> (PathBuf, PathBuf) {
    let mut names = inner.iter();
    match (names.next(), names.next()) {
        (Some(first), Some(name)) if first == "worktrees" => {
            (Path::new("worktrees").join(name), names.collect())
        }
        _ => (PathBuf::new(), inner.to_path_buf()),
    }
}

/// Returns true when a path of a git directory is applied with the repository: objects, refs, logs, the
/// index and what says where a checkout stands. The rest is settings and programs.
pub(crate) fn belongs(inner: &Path) -> bool {
    let (_, inner) = checkout(inner);
    // `info/refs` is made from the refs.
    if inner.starts_with("refs") || inner.starts_with("logs") || inner == Path::new("info/refs") {
        return true;
    }
    if inner.starts_with("objects") {
        return is_object(&inner);
    }
    let one = inner.to_str().filter(|name| !name.contains('/'));
    one.is_some_and(|name| STATE.contains(&name) || name.starts_with("sharedindex."))
}
