//! Root directory of a world, and its removal.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::caller::setting;

/// Directory that is removed together with the last world in it.
#[derive(Debug)]
pub(crate) struct Root(Option<TempDir>);

impl Root {
    pub(crate) fn new() -> Self {
        Self::below(&parent())
    }

    pub(crate) fn below(parent: &Path) -> Self {
        fs::create_dir_all(parent)
            .unwrap_or_else(|error| panic!("cannot create `{}`: {error}", parent.display()));
        let dir = tempfile::Builder::new().prefix("as-test-").tempdir_in(parent);
        Self(Some(dir.unwrap_or_else(|error| {
            panic!("cannot create a world in `{}`: {error}", parent.display())
        })))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.as_ref().map_or(Path::new(""), TempDir::path)
    }
}

/// Returns the directory for worlds. `/tmp` is private to a sandbox, and directories in a checkout would belong to its
/// repository.
fn parent() -> PathBuf {
    let home = setting("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute() && !home.starts_with("/tmp"));
    let cache = home.filter(|home| home.is_dir()).map(|home| home.join(".cache"));
    cache.unwrap_or_else(|| PathBuf::from("/var/tmp"))
}

impl Drop for Root {
    fn drop(&mut self) {
        let Some(dir) = self.0.take().map(TempDir::keep) else { return };
        let removed = fs::remove_dir_all(&dir).or_else(|_| {
            unlock(&dir)?;
            fs::remove_dir_all(&dir)
        });
        if let Err(error) = removed
            && !std::thread::panicking()
        {
            panic!("cannot remove `{}`: {error}", dir.display());
        }
    }
}

/// Makes all directories writable. Tests may create some that their owner cannot list.
fn unlock(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            unlock(&entry.path())?;
        }
    }
    Ok(())
}
