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

/// Name of the file. Of the three possible names, this one shows that comments are allowed.
pub const NAME: &str = ".agent-sandbox.jsonc";

/// Failure to write a configuration.
#[derive(Debug, Error)]
pub enum StarterError {
    /// The project has a configuration.
    #[error("`{}` already exists", .0.display())]
    Exists(PathBuf),
    /// The command runs inside a sandbox, and the file would be moved aside at the end of the run.
    #[error(
        "cannot create a configuration inside a sandbox: it would be moved aside at the end of the run"
    )]
    Inside,
    /// The file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Hint for StarterError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Exists(_) => {
                Some("to see the effective configuration, run `agent-sandbox config show`".into())
            }
            Self::Inside => Some("run `agent-sandbox init` outside the sandbox".into()),
            Self::Write { .. } => None,
        }
    }
}

/// A configuration for a project, not yet written.
#[derive(Debug)]
pub struct Starter {
    /// Path of the file.
    pub file: PathBuf,
    /// Languages, tools and files of the project.
    pub survey: Survey,
    /// Content of the file.
    pub content: String,
}

impl Starter {
    /// Surveys a project without a configuration.
    pub fn of(project: &Path, host: &Host) -> Result<Self, StarterError> {
        if host.inside {
            return Err(StarterError::Inside);
        }
        must_be_new(project)?;
        let survey = Survey::of(project);
        let content = text::render(&survey);
        Ok(Self { file: project.join(NAME), survey, content })
    }

    /// Creates the file. Fails if it exists meanwhile, or is a link.
    pub fn write(&self) -> Result<(), StarterError> {
        let path = &self.file;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => StarterError::Exists(path.clone()),
            _ => StarterError::Write { path: path.clone(), source },
        };
        // O_EXCL neither overwrites a file nor follows a link: `open(2)`.
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
        file.write_all(self.content.as_bytes()).map_err(failed)
    }
}

fn must_be_new(cwd: &Path) -> Result<(), StarterError> {
    let paths = PROJECT_NAMES.iter().map(|name| cwd.join(name));
    // A dangling link counts too: it was meant to be a configuration.
    let mut existing =
        paths.filter(|path| fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_dir()));
    existing.next().map_or(Ok(()), |path| Err(StarterError::Exists(path)))
}
