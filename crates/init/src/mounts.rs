//! What is mounted must be what was looked at when the container was made: a directory that was swapped
//! for a link, or for another one, since then is not taken for it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use thiserror::Error;

use crate::environment::Environment;
use crate::log::shown;
use crate::names::AGENT_MOUNTS;

#[derive(Debug, Error)]
pub(crate) enum MountError {
    #[error("{AGENT_MOUNTS} is no list of mounts")]
    List(#[source] serde_json::Error),
    #[error("cannot look at the mount `{}`", shown(path))]
    Look { path: PathBuf, source: io::Error },
    #[error("what is mounted at `{}` is not what the session was made with", shown(.0))]
    Another(PathBuf),
}

impl MountError {
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::List(_) => "it is a JSON array of [PATH, DEVICE, INODE]",
            Self::Look { .. } | Self::Another(_) => {
                "if it was replaced on purpose, `agent-sandbox up` looks at it again"
            }
        }
    }
}

/// Compares each mount with what it has to be.
pub(crate) fn check(environment: &Environment) -> Result<(), MountError> {
    let Some(text) = environment.set(AGENT_MOUNTS) else { return Ok(()) };
    let known: Vec<(PathBuf, u64, u64)> = serde_json::from_slice(text).map_err(MountError::List)?;
    for (path, dev, ino) in known {
        let about = fs::symlink_metadata(&path)
            .map_err(|source| MountError::Look { path: path.clone(), source })?;
        if (about.dev(), about.ino()) != (dev, ino) {
            return Err(MountError::Another(path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_refuses_what_is_another_file_than_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "").unwrap();
        let about = fs::symlink_metadata(&path).unwrap();
        let given = |dev: u64, ino: u64| {
            let text = serde_json::to_string(&[(path.to_str().unwrap(), dev, ino)]).unwrap();
            Environment::of([format!("{AGENT_MOUNTS}={text}").into_bytes()])
        };
        assert!(check(&Environment::default()).is_ok());
        assert!(check(&given(about.dev(), about.ino())).is_ok());
        assert!(matches!(check(&given(about.dev(), about.ino() + 1)), Err(MountError::Another(_))));
        assert!(matches!(check(&given(about.dev() + 1, about.ino())), Err(MountError::Another(_))));
        let same = given(about.dev(), about.ino());
        fs::remove_file(&path).unwrap();
        assert!(matches!(check(&same), Err(MountError::Look { .. })));
        let odd = Environment::of([format!("{AGENT_MOUNTS}=x").into_bytes()]);
        assert!(matches!(check(&odd), Err(MountError::List(_))));
    }
}
