//! Directories whose configuration applies in a working directory.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sandbox_linux::file;

use crate::Host;

/// Returns the directories whose configuration applies in `cwd`, a real path, outermost first.
///
/// Below the home directory, these are all directories up to the home directory, which only counts if it is the working
/// directory. Elsewhere they end at the outermost repository: a nested one does not hide the policy above it.
pub(super) fn project_dirs(cwd: &Path, host: &Host) -> Vec<PathBuf> {
    let home = host.home.as_deref().and_then(|home| file::real(home).ok());
    let top = match &home {
        Some(home) if cwd != home && cwd.starts_with(home) => below(home, cwd),
        Some(home) if cwd == home => cwd,
        _ => cwd.ancestors().filter(|dir| is_repository(dir)).last().unwrap_or(cwd),
    };
    let mut dirs: Vec<_> = cwd.ancestors().take_while(|dir| dir.starts_with(top)).collect();
    dirs.reverse();
    dirs.into_iter().map(Path::to_path_buf).collect()
}

/// Returns the directory directly below `home` that contains `cwd`.
fn below<'c>(home: &Path, cwd: &'c Path) -> &'c Path {
    cwd.ancestors().take_while(|dir| *dir != home).last().unwrap_or(cwd)
}

/// Returns true when git could find a repository in a directory, or when that is unknown. A longer search finds more
/// restrictions.
fn is_repository(dir: &Path) -> bool {
    match fs::symlink_metadata(dir.join(".git")) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

#[cfg(test)]
mod tests;
