//! Meaning of the paths inside a git directory, and of the paths that contain one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use sandbox_linux::tree::Kind;

const DOT_GIT: &str = ".git";
/// Files at the top of a git directory that hold the state of the repository.
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
/// Top-level names of a bare repository.
pub(crate) const BARE: [&str; 5] = ["HEAD", "objects", "refs", "packed-refs", "logs"];

/// Returns the part of a path up to its first `.git`.
pub fn dot_git(path: &Path) -> Option<&Path> {
    let at = path.iter().position(|name| name == DOT_GIT)?;
    path.ancestors().nth(path.iter().count() - at - 1)
}

/// Returns true when a path may be inside a git directory, by its names alone.
pub fn may_lie_in_git_dir(path: &Path) -> bool {
    path.iter().any(|part| part == DOT_GIT || BARE.iter().any(|name| part == *name))
}

/// Returns the git directory that contains a path. `kind` returns the type of a path.
pub fn git_dir_of(path: &Path, kind: impl Fn(&Path) -> Option<Kind>) -> Option<PathBuf> {
    if let Some(dir) = dot_git(path) {
        return (dir != path).then(|| dir.to_path_buf());
    }
    let shaped = |dir: &Path| {
        kind(&dir.join("HEAD")) == Some(Kind::File)
            && kind(&dir.join("objects")) == Some(Kind::Dir)
            && kind(&dir.join("refs")) == Some(Kind::Dir)
    };
    below(path, may_begin)
        .find(|(dir, inner)| belongs(inner) && shaped(dir))
        .map(|(dir, _)| dir.into())
}

/// Returns the directories above a path, innermost first, each with the rest of the path, if `first` accepts the first
/// name of that rest. Most paths have no such name, and comparing whole paths at each level is slow in deep trees.
fn below(path: &Path, first: impl Fn(&OsStr) -> bool) -> impl Iterator<Item = (&Path, &Path)> {
    path.ancestors()
        .skip(1)
        .zip(path.iter().rev())
        .filter(move |(_, name)| first(name))
        .filter_map(move |(dir, _)| Some((dir, path.strip_prefix(dir).ok()?)))
}

/// Returns true if a path that [`belongs`] can begin with a name.
fn may_begin(name: &OsStr) -> bool {
    let fixed = ["worktrees", "refs", "logs", "info", "objects"];
    name.to_str().is_some_and(|name| {
        fixed.contains(&name) || STATE.contains(&name) || name.starts_with("sharedindex.")
    })
}

/// Returns true when git would use a file because its directory has the layout of a git directory, under any
/// name. `exists` returns true for paths that exist.
pub fn is_obeyed_in_bare(path: &Path, exists: impl Fn(&Path) -> bool) -> bool {
    let first = |name: &OsStr| name == "config" || name == "hooks" || name == "commondir";
    below(path, first).any(|(dir, inner)| {
        (inner.starts_with("hooks") || inner.iter().nth(1).is_none())
            && exists(&dir.join("HEAD"))
            && (exists(&dir.join("refs")) || exists(&dir.join("commondir")))
    })
}

/// Returns true for an object, or an index over objects.
pub fn is_object(inner: &Path) -> bool {
    inner.starts_with("objects") && !is_obeyed_object(inner)
}

/// Returns true for files that point git to other object directories.
fn is_obeyed_object(inner: &Path) -> bool {
    inner.starts_with("objects/info")
        && inner.file_name().is_some_and(|name| {
            let name = name.to_string_lossy().to_lowercase();
            name.ends_with("alternates")
        })
}

/// Splits a path into the directory of its checkout, empty for the main one, and the path in it.
pub(crate) fn checkout(inner: &Path) -> (PathBuf, PathBuf) {
    let mut names = inner.iter();
    match (names.next(), names.next()) {
        (Some(first), Some(name)) if first == "worktrees" => {
            (Path::new("worktrees").join(name), names.collect())
        }
        _ => (PathBuf::new(), inner.to_path_buf()),
    }
}

/// Returns true when a path of a git directory is applied with the repository: objects, refs, logs, indexes
/// and the state of a checkout. The rest is settings and programs.
pub fn belongs(inner: &Path) -> bool {
    let (_, inner) = checkout(inner);
    // Git generates `info/refs` from the refs.
    if inner.starts_with("refs") || inner.starts_with("logs") || inner == Path::new("info/refs") {
        return true;
    }
    if inner.starts_with("objects") {
        return is_object(&inner);
    }
    let one = inner.to_str().filter(|name| !name.contains('/'));
    one.is_some_and(|name| STATE.contains(&name) || name.starts_with("sharedindex."))
}

/// Returns true for git's index, by its path below a work tree. The host's `git status` and editors rewrite
/// it, so a changed index must not hold back the rest.
pub fn is_index(path: &Path) -> bool {
    path.ends_with("index") && path.iter().any(|name| name == DOT_GIT)
}

/// Returns true for files that `git init` creates from its templates and git does not need.
pub fn is_template(inner: &Path) -> bool {
    let sample = inner.extension().is_some_and(|end| end == "sample");
    // `shallow` is handled with the repository.
    inner == Path::new("description")
        || inner == Path::new("shallow")
        || inner == Path::new("info/exclude")
        || (inner.starts_with("hooks") && sample && inner.iter().count() == 2)
}
