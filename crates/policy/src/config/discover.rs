//! Search for configuration files. Each file is read once, so the bytes that are checked are the bytes that apply.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Request;
use super::error::ConfigError;
use super::file::{FileError, MAX_BYTES, Position, Problem, Syntax, decode};
use super::layer::Layer;
use super::project_dirs::project_dirs;
use crate::Host;
use sandbox_linux::file;

/// Names of a project's configuration.
pub const PROJECT_NAMES: [&str; 3] =
    [".agent-sandbox.json", ".agent-sandbox.jsonc", "sandbox.toml"];
/// Names of the user's configuration.
pub const GLOBAL_NAMES: [&str; 3] = ["config.json", "config.jsonc", "config.toml"];

/// Configuration files to load.
#[derive(Debug, Clone)]
pub struct Located {
    /// The effective working directory: absolute, with symlinks resolved.
    pub cwd: PathBuf,
    /// The directories that were searched for the project's files, outermost first. Empty with `--config`.
    pub dirs: Vec<PathBuf>,
    /// The files, in the order of their layers. Of the project's files, the outermost is first.
    pub files: Vec<Found>,
}

/// A configuration file that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its layer.
    pub layer: Layer,
    /// Its path, not resolved.
    pub path: PathBuf,
    /// The directory that its relative path rules are based on.
    pub base: PathBuf,
    /// True if the user named it with `--config`, and so trusts it.
    pub named: bool,
}

/// Finds the files without reading them.
pub fn locate(host: &Host, request: &Request) -> Result<Located, ConfigError> {
    let cwd = effective_cwd(host, request)?;
    let mut files = Vec::new();
    if let Some(dir) = host.config_dir() {
        let path = candidate(&dir, GLOBAL_NAMES)?;
        let base = cwd.clone();
        files.extend(path.map(|path| Found { layer: Layer::Global, path, base, named: false }));
    }
    let mut dirs = Vec::new();
    if let Some(config) = &request.config {
        let (path, base) = (cwd.join(config), cwd.clone());
        files.push(Found { layer: Layer::Project, path, base, named: true });
    } else {
        dirs = project_dirs(&cwd, host);
    }
    for dir in &dirs {
        let path = candidate(dir, PROJECT_NAMES)?;
        let base = dir.clone();
        files.extend(path.map(|path| Found { layer: Layer::Project, path, base, named: false }));
    }
    Ok(Located { cwd, dirs, files })
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

/// Returns the file with one of these names, if there is one. Ignores directories with such a name.
fn candidate(dir: &Path, names: [&str; 3]) -> Result<Option<PathBuf>, ConfigError> {
    let mut found = Vec::new();
    for name in names {
        let path = dir.join(name);
        // A dangling link is an error when it is read. It must not count as a missing configuration.
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

impl Located {
    /// Returns true when a file is the project's only one, and in the working directory.
    pub(super) fn is_alone(&self, found: &Found) -> bool {
        let count = self.files.iter().filter(|file| file.layer == Layer::Project).count();
        count == 1 && found.base == self.cwd
    }
}

impl Found {
    /// Checks that a file above the working directory belongs to the user, as does its directory. Another user must not
    /// decide about this user's sandbox unasked.
    pub(super) fn check_owner(&self, host: &Host, cwd: &Path) -> Result<(), ConfigError> {
        if self.named || self.layer != Layer::Project || self.base == cwd {
            return Ok(());
        }
        for path in [&self.base, &self.path] {
            let meta = fs::symlink_metadata(path)
                .map_err(|source| ConfigError::Read { path: self.path.clone(), source })?;
            if meta.uid() != host.uid {
                return Err(ConfigError::Foreign { path: self.path.clone() });
            }
        }
        Ok(())
    }

    /// Reads the file. No other code reads it.
    pub(super) fn read(&self) -> Result<Vec<u8>, ConfigError> {
        let failed = |source| ConfigError::Read { path: self.path.clone(), source };
        // Reading a pipe may block, which is acceptable only for a file that the user named.
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

    /// Decodes the bytes and detects the syntax.
    pub(super) fn decode<'a>(&self, bytes: &'a [u8]) -> Result<(&'a str, Syntax), FileError> {
        let text = decode(bytes, &self.path)?;
        Ok((text, Syntax::of(&self.path, text)))
    }

    /// Returns the paths at which this file could be replaced: its own, and the target's if it is a link.
    pub(super) fn names(&self) -> Vec<PathBuf> {
        let mut names = vec![self.path.clone()];
        let target = file::real(&self.path).ok().filter(|target| *target != self.path);
        // A pipe or a terminal cannot be replaced by name.
        names.extend(target.filter(|target| target.is_file()));
        names
    }
}
