//! State of an agent that has never run in this home directory.
//!
//! The home directory is read-only inside, so an agent cannot create its state directory on its first run. The state is
//! created before the run, only where a rule makes it writable, and removed after the run if the agent did not use it.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use sandbox_policy::catalog::agent::Initial;

/// State created for an agent. Unused state is removed on drop.
#[derive(Debug, Default)]
#[must_use = "unused state is removed on drop"]
pub struct FirstRun {
    /// Created paths, parents first.
    made: Vec<(PathBuf, Initial)>,
}

/// Failure to create the state.
#[derive(Debug, Error)]
#[error("cannot create `{}`: {source}", path.display())]
pub struct FirstRunError {
    /// The path to create.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

impl FirstRun {
    /// Creates the missing state, private to the user. Paths that another process creates meanwhile are left alone.
    pub fn prepare(missing: Vec<(PathBuf, Initial)>) -> Result<Self, FirstRunError> {
        let mut run = Self::default();
        for (path, initial) in missing {
            run.with_parents(&path, initial).map_err(|source| FirstRunError { path, source })?;
        }
        Ok(run)
    }

    /// Returns every created path.
    pub fn made(&self) -> impl Iterator<Item = &Path> {
        self.made.iter().map(|(path, _)| path.as_path())
    }

    fn with_parents(&mut self, path: &Path, initial: Initial) -> io::Result<()> {
        match self.make(path, initial) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().ok_or(error)?;
                self.with_parents(parent, Initial::Dir)?;
                self.make(path, initial)
            }
            made => made,
        }
    }

    fn make(&mut self, path: &Path, initial: Initial) -> io::Result<()> {
        let made = match initial {
            Initial::Dir => DirBuilder::new().mode(0o700).create(path),
            Initial::File(content) => OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .and_then(|mut file| file.write_all(content.as_bytes())),
        };
        match made {
            Ok(()) => self.made.push((path.to_path_buf(), initial)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Drop for FirstRun {
    fn drop(&mut self) {
        for (path, initial) in self.made.iter().rev() {
            // Removing a directory fails if the agent has used it, which is intended.
            let _ = match initial {
                Initial::Dir => fs::remove_dir(path),
                Initial::File(content) if holds(path, content) => fs::remove_file(path),
                Initial::File(_) => Ok(()),
            };
        }
    }
}

fn holds(path: &Path, content: &str) -> bool {
    fs::read(path).is_ok_and(|found| found == content.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn missing(home: &Path) -> Vec<(PathBuf, Initial)> {
        vec![
            (home.join(".agent"), Initial::Dir),
            (home.join(".agent.json"), Initial::File("{}\n")),
            (home.join(".local/share/agent"), Initial::Dir),
        ]
    }

    #[test]
    fn state_is_removed_when_the_agent_did_not_use_it() {
        let home = tempfile::tempdir().unwrap();
        let run = FirstRun::prepare(missing(home.path())).unwrap();
        assert_eq!(run.made().count(), 5);
        let mode = |name| fs::metadata(home.path().join(name)).unwrap().permissions().mode();
        assert_eq!([mode(".agent"), mode(".agent.json")].map(|mode| mode & 0o777), [0o700, 0o600]);
        drop(run);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn state_stays_when_the_agent_used_it() {
        let home = tempfile::tempdir().unwrap();
        let run = FirstRun::prepare(missing(home.path())).unwrap();
        fs::write(home.path().join(".agent.json"), "{\"theme\":\"dark\"}").unwrap();
        fs::write(home.path().join(".local/share/agent/log"), "").unwrap();
        drop(run);
        let stays = |name| fs::symlink_metadata(home.path().join(name)).is_ok();
        let names = [".agent", ".agent.json", ".local/share/agent/log"];
        assert_eq!(names.map(stays), [false, true, true]);
    }

    #[test]
    fn existing_state_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".agent")).unwrap();
        fs::write(home.path().join(".agent.json"), "{}\n").unwrap();
        drop(FirstRun::prepare(missing(home.path())).unwrap());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    }

    #[test]
    fn created_state_is_removed_when_creating_the_rest_fails() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(".local"), "a file").unwrap();
        let error = FirstRun::prepare(missing(home.path())).unwrap_err();
        assert_eq!(error.path, home.path().join(".local/share/agent"));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
