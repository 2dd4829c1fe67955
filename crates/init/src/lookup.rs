//! Search for a program, as the user who runs it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use sandbox_protocol::Hint;
use thiserror::Error;

use crate::log::shown;

/// Failure to find a program.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum LookupError {
    #[error("the agent's program `{}` is not found in PATH, or not executable for this user", shown(.0))]
    NotFound(OsString),
    #[error("the agent's program `{}` is only in a relative directory of PATH, which is refused", shown(.0))]
    Relative(OsString),
}

impl Hint for LookupError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NotFound(_) => "install it in the image, or give its path",
            Self::Relative(_) => "give its path, or make the entries of PATH absolute",
        };
        Some(text.to_owned())
    }
}

/// Finds a program. A word with a slash is a path. Other words are searched in `PATH`, but not in its relative entries:
/// otherwise a process that can write to the workspace could choose the program.
pub(crate) fn find(word: &OsStr, path: Option<&[u8]>) -> Result<PathBuf, LookupError> {
    if word.as_bytes().contains(&b'/') {
        return Ok(word.into());
    }
    for dir in path.into_iter().flat_map(|path| path.split(|byte| *byte == b':')) {
        let dir = if dir.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(dir)) };
        let file = dir.join(word);
        if !is_program(&file) {
            continue;
        }
        return if dir.is_absolute() { Ok(file) } else { Err(LookupError::Relative(word.into())) };
    }
    Err(LookupError::NotFound(word.into()))
}

fn is_program(file: &Path) -> bool {
    file.is_file() && rustix::fs::accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}
