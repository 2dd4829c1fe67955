//! Control variables from a file, so that neither `docker inspect` nor `docker exec` shows them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use sandbox_protocol::Hint;
use sandbox_protocol::variable::{AGENT_CONTROL_FILE, CONTROL};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::environment::Environment;
use crate::init_uid;
use crate::log::shown;

/// A control file that was read.
#[derive(Debug)]
pub(crate) struct ControlFile {
    path: PathBuf,
}

/// Failure to use a control file. The messages contain nothing of its content.
#[derive(Debug, Error)]
pub(crate) enum ControlError {
    #[error("cannot read the control file `{}`", shown(path))]
    Read { path: PathBuf, source: io::Error },
    #[error("the control file `{}` is refused: {why}", shown(path))]
    Refused { path: PathBuf, why: &'static str },
    #[error("line {line} of the control file `{}` does not set a control variable", shown(path))]
    Line { path: PathBuf, line: usize },
    #[error("cannot remove the control file `{}`, so the agent could read it", shown(path))]
    Remove { path: PathBuf, source: io::Error },
}

impl ControlError {
    /// Returns true when the file does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl Hint for ControlError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Read { .. } | Self::Refused { .. } => {
                "it must be a regular file with mode 0600, owned by root or by the user of this process"
                    .into()
            }
            Self::Line { .. } => {
                format!("write NAME=VALUE, where NAME is one of {}", CONTROL.join(", "))
            }
            Self::Remove { .. } => {
                "put it into a separate, writable directory".into()
            }
        })
    }
}

impl ControlFile {
    /// Adds the variables of the control file, if the environment names one.
    pub(crate) fn take(environment: &mut Environment) -> Result<Option<Self>, ControlError> {
        let Some(path) = environment.word(AGENT_CONTROL_FILE).map(PathBuf::from) else {
            return Ok(None);
        };
        let text = read(&path, init_uid::of(environment).unwrap_or(0))?;
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let wrong = || ControlError::Line { path: path.clone(), line: index + 1 };
            let (name, value) = pair(line).ok_or_else(wrong)?;
            environment.put(name, value);
        }
        Ok(Some(Self { path }))
    }

    /// Returns the error that refuses this file.
    pub(crate) fn refuse(self, why: &'static str) -> ControlError {
        ControlError::Refused { path: self.path, why }
    }

    /// Removes the file, so that no later process can read it.
    pub(crate) fn remove(self) -> Result<(), ControlError> {
        fs::remove_file(&self.path)
            .map_err(|source| ControlError::Remove { path: self.path, source })
    }
}

fn pair(line: &[u8]) -> Option<(&'static str, &[u8])> {
    CONTROL
        .iter()
        .find_map(|name| Some((*name, line.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?)))
}

/// Returns true when this process is PID 1's user (`first`), and a directory above the file is accessible only to that
/// user. A rootless caller cannot make root the owner of a file, but can put the file into such a directory.
fn is_closed(path: &std::path::Path, first: u32) -> bool {
    let closed = |dir: &std::path::Path| {
        fs::symlink_metadata(dir).is_ok_and(|about| {
            about.is_dir() && about.uid() == first && about.mode() & 0o777 & !0o700 == 0
        })
    };
    sandbox_linux::process::uid() == first && path.ancestors().skip(1).any(closed)
}

/// Reads a file. Fails if other users could have written or read it.
fn read(path: &PathBuf, first: u32) -> Result<Zeroizing<Vec<u8>>, ControlError> {
    let failed = |source| ControlError::Read { path: path.clone(), source };
    let refused = |why| Err(ControlError::Refused { path: path.clone(), why });
    // Opening a FIFO in its place must not block.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let mut file = File::from(opened.map_err(|error| failed(error.into()))?);
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return refused("it is not a regular file");
    }
    if !is_closed(path, first) {
        if about.uid() != 0 && about.uid() != sandbox_linux::process::uid() {
            return refused("it belongs to another user");
        }
        if about.mode() & 0o7177 != 0 {
            return refused("its mode gives access to other users");
        }
    }
    // With the full capacity, the buffer never moves and leaves no copy of the secrets behind.
    let mut text =
        Zeroizing::new(Vec::with_capacity(usize::try_from(about.len()).unwrap_or(0) + 64));
    file.read_to_end(&mut text).map_err(failed)?;
    Ok(text)
}
