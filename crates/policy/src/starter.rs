//! The configuration that `agent-sandbox init` writes for a project.

mod survey;
mod text;
#[cfg(test)]
mod tests;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sandbox_protocol::Hint;
use thiserror::Error;

pub use survey::Survey;

use crate::config::PROJECT_NAMES;
use crate::host::Host;

/// Name of the file. Of the three names, this one says that comments are welcome.
pub const NAME: &str = ".agent-sandbox.jsonc";

/// Failure to write a configuration.
#[derive(Debug, Error)]
pub enum StarterError {
    /// A configuration exists already.
    #[error("`{}` exists already", .0.display())]
    Exists(PathBuf),
    /// The end of the sandbox would move the file aside.
    #[error("a configuration that is written inside a sandbox would be moved aside at its end")]
    Inside,
    /// The file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Hint for StarterError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Exists(_) => Some("`agent-sandbox config show` says what it comes to".into()),
            Self::Inside => Some("run `agent-sandbox init` outside".into()),
            Self::Write { .. } => None,
        }
    }
}

/// A configuration that is not written yet.
#[derive(Debug)]
pub struct Starter {
    /// Path of the file.
    pub file: PathBuf,
    /// What the project is made of.
    pub survey: Survey,
    /// Content of the file.
    pub content: String,
}

impl Starter {
    /// Surveys a project that has no configuration.
    pub fn of(project: &Path, host: &Host) -> Result<Self, StarterError> {
        if host.inside {
            return Err(StarterError::Inside);
        }
        must_be_new(project)?;
        let survey = Survey::of(project);
        let content = text::render(&survey);
        Ok(Self { file: project.join(NAME), survey, content })
    }

    /// Creates the file. One that came into being meanwhile, or a link, is left alone.
    pub fn write(&self) -> Result<(), StarterError> {
        let path = &self.file;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => StarterError::Exists(path.clone()),
            _ => StarterError::Write { path: path.clone(), source },
        };
        // O_EXCL: neither overwrites nor follows a link.
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
        file.write_all(self.content.as_bytes()).map_err(failed)
    }
}

fn must_be_new(cwd: &Path) -> Result<(), StarterError> {
    let taken = PROJECT_NAMES.iter().map(|name| cwd.join(name));
    // A link that leads nowhere counts: a configuration was meant to be there.
    let mut taken =
        taken.filter(|path| fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_dir()));
    taken.next().map_or(Ok(()), |path| Err(StarterError::Exists(path)))
}
