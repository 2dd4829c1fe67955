//! Where configuration files are, and their bytes: read once, so that what is checked is what is obeyed.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::Request;
use super::error::ConfigError;
use super::file::{FileError, MAX_BYTES, Position, Problem, Syntax, decode};
use super::layer::Layer;
use crate::Host;
use sandbox_linux::file;

/// The names of a project's configuration, in the working directory only.
pub const PROJECT_NAMES: [&str; 3] =
    [".agent-sandbox.json", ".agent-sandbox.jsonc", "sandbox.toml"];
/// The names of the user's configuration.
pub const GLOBAL_NAMES: [&str; 3] = ["config.json", "config.jsonc", "config.toml"];

/// What there is to load.
#[derive(Debug, Clone)]
pub struct Located {
    /// The effective working directory, absolute, symlinks resolved.
    pub cwd: PathBuf,
    /// The files, in the order of their layers.
    pub files: Vec<Found>,
}

/// A configuration file that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its layer.
    pub layer: Layer,
    /// Its path, not resolved.
    pub path: PathBuf,
    /// Whether the user named it with `--config`, and thereby trusts it.
    pub named: bool,
}

/// Finds the files without reading them.
pub fn locate(host: &Host, request: &Request) -> Result<Located, ConfigError> {
    let cwd = effective_cwd(host, request)?;
    let mut files = Vec::new();
    if let Some(dir) = host.config_dir() {
        let path = candidate(&dir, GLOBAL_NAMES)?;
        files.extend(path.map(|path| Found { layer: Layer::Global, path, named: false }));
    }
    let project = match &request.config {
        Some(config) => Some(Found { layer: Layer::Project, path: cwd.join(config), named: true }),
        None => candidate(&cwd, PROJECT_NAMES)?.map(|path| Found {
            layer: Layer::Project,
            path,
            named: false,
        }),
    };
    files.extend(project);
    Ok(Located { cwd, files })
}

fn effective_cwd(host: &Host, request: &Request) -> Result<PathBuf, ConfigError> {
    let path = match (&host.cwd, &request.cwd) {
        (Some(here), Some(asked)) => here.join(asked),
        (Some(here), None) => here.clone(),
        (None, Some(asked)) if asked.is_absolute() => asked.clone(),
        (None, _) => return Err(ConfigError::CwdGone),
    };
    let failed = |source| ConfigError::Cwd {
        path: request.cwd.clone().unwrap_or_else(|| path.clone()),
        source,
    };
    let real = file::real(&path).map_err(failed)?;
    if !fs::metadata(&real).map_err(failed)?.is_dir() {
        return Err(failed(ErrorKind::NotADirectory.into()));
    }
    Ok(real)
}

/// The one file by any of these names. A directory by such a name is something else's.
fn candidate(dir: &Path, names: [&str; 3]) -> Result<Option<PathBuf>, ConfigError> {
    let mut found = Vec::new();
    for name in names {
        let path = dir.join(name);
        // Of a link that leads nowhere, the attempt to read it will tell: it is not "no configuration".
        match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => found.push(path),
            Err(error) if is_missing(&error) && !is_link(&path) => {}
            Err(error) if is_missing(&error) => found.push(path),
            Err(source) => return Err(ConfigError::Read { path, source }),
        }
    }
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(ConfigError::Several { paths: found }),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink())
}

impl Found {
    /// The file's bytes, which is all that is ever read of it.
    pub(super) fn read(&self) -> Result<Vec<u8>, ConfigError> {
        let failed = |source| ConfigError::Read { path: self.path.clone(), source };
        // A pipe would be waited for; only one that the user named is worth that.
        if !self.named && !fs::metadata(&self.path).map_err(failed)?.is_file() {
            return Err(ConfigError::NotRegular { path: self.path.clone() });
        }
        let mut bytes = Vec::new();
        let file = File::open(&self.path).map_err(failed)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_BYTES {
            let start = Position { line: 1, column: 1 };
            return Err(FileError::new(&self.path, start, Problem::TooLarge).into());
        }
        Ok(bytes)
    }

    /// The bytes as text, and how it is written.
    pub(super) fn decode<'a>(&self, bytes: &'a [u8]) -> Result<(&'a str, Syntax), FileError> {
        let text = decode(bytes, &self.path)?;
        Ok((text, Syntax::of(&self.path, text)))
    }

    /// The names by which this file could be replaced: its own, and the target's if it is a link.
    pub(super) fn names(&self) -> Vec<PathBuf> {
        let mut names = vec![self.path.clone()];
        let target = file::real(&self.path).ok().filter(|target| *target != self.path);
        // A pipe or a terminal has no name that anybody could take.
        names.extend(target.filter(|target| target.is_file()));
        names
    }
}
