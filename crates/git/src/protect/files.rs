//! Safe reads of files in a repository that may be hostile.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use super::Link;

/// Maximum number of symlinks, as in the kernel: `path_resolution(7)`.
const MAX_LINKS: usize = 40;
/// `O_NONBLOCK`, so that opening a pipe in place of a file does not block.
const NONBLOCK: i32 = 0o4000;

/// Path with all symlinks resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The real path; missing components are appended unchanged.
    pub path: PathBuf,
    /// True when it exists.
    pub exists: bool,
    /// Symlinks on the way.
    pub links: Vec<Link>,
}

/// Resolves `path` relative to `base`, which is a real path. Returns `None` for a symlink loop.
pub fn settle(base: &Path, path: &Path) -> Option<Settled> {
    let mut todo = names(path);
    let mut here = if path.is_absolute() { PathBuf::from("/") } else { base.to_path_buf() };
    let (mut links, mut exists) = (Vec::new(), true);
    while let Some(name) = todo.pop() {
        if name == ".." {
            here.pop();
            continue;
        }
        here.push(&name);
        if !exists {
            continue;
        }
        match fs::symlink_metadata(&here) {
            Ok(meta) if meta.is_symlink() => {
                let target = fs::read_link(&here).ok()?;
                todo.extend(names(&target));
                links.push(Link { path: here.clone(), target: target.clone() });
                here = if target.is_absolute() { PathBuf::from("/") } else { parent_of(&here) };
                if links.len() > MAX_LINKS {
                    return None;
                }
            }
            Ok(_) => {}
            Err(_) => exists = false,
        }
    }
    Some(Settled { path: here, exists, links })
}

fn parent_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(path).to_path_buf()
}

/// Returns the components of a path, last first.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

/// Reads a regular file of at most `limit` bytes. Links are followed, as git does.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut bytes =
        Vec::with_capacity(usize::try_from(metadata.len().min(limit)).unwrap_or(0) + 64);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(bytes)
}

/// Reads a file that holds one path, such as `commondir`.
pub(crate) fn read_path(path: &Path) -> Option<PathBuf> {
    let bytes = read(path, 8192).ok()?;
    one_path(&bytes)
}

/// Parses a file that contains one path.
pub fn one_path(bytes: &[u8]) -> Option<PathBuf> {
    let end = bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
    let line = &bytes[..end];
    (!line.is_empty() && !line.contains(&0)).then(|| OsString::from_vec(line.to_vec()).into())
}

/// Parses a `.git` file.
pub fn pointer_path(bytes: &[u8]) -> Option<PathBuf> {
    one_path(bytes.strip_prefix(b"gitdir: ")?)
}

/// Calls lstat(2). Any failure means that git cannot see the path either.
pub(crate) fn lstat(path: &Path) -> Option<Metadata> {
    fs::symlink_metadata(path).ok()
}

/// Returns true when git accepts this directory as a git directory, by the same three tests.
pub fn is_git_shape(dir: &Path) -> bool {
    lstat(&dir.join("HEAD")).is_some()
        && (lstat(&dir.join("commondir")).is_some()
            || (dir.join("objects").is_dir() && dir.join("refs").is_dir()))
}

/// Returns true when git may treat this name as `.git`: some filesystems ignore case.
pub fn is_dot_git(name: &OsStr) -> bool {
    name.as_bytes().eq_ignore_ascii_case(b".git")
}
