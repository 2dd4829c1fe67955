//! Records of trusted files, one small file each, in the state directory, which no sandbox can write.
//!
//! The name of a record consists of the hash of the file's path and the hash of its content. Its content is the path.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use sandbox_linux::replace::{DraftName, Durability, Replace};
use sandbox_protocol::Hint;
use serde::Serialize;
use thiserror::Error;

use crate::Host;
use crate::config::digest::Digest;

/// A trusted file with one content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct TrustRecord {
    /// The file.
    pub path: PathBuf,
    /// Its content.
    pub digest: Digest,
}

/// Failure to access the records.
#[derive(Debug, Error)]
pub enum TrustError {
    /// There is no state directory.
    #[error("there is no directory for trust records, because `HOME` is not set")]
    NoState,
    /// Other users can write the records.
    #[error("the trust records in `{}` are writable by other users", dir.display())]
    Shared {
        /// The directory.
        dir: PathBuf,
    },
    /// The file cannot be found.
    #[error("cannot find `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The record cannot be read or written.
    #[error("cannot access the trust record `{}`", path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Hint for TrustError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoState => Some("set `HOME` or `XDG_STATE_HOME`".to_owned()),
            Self::Shared { dir } => Some(format!("run `chmod 700 {}` as its owner", dir.display())),
            Self::File { .. } | Self::Record { .. } => None,
        }
    }
}

/// Returns true when the user trusts the file at `path` with this content. On an error, it is not trusted.
pub(crate) fn is_trusted(host: &Host, path: &Path, content: &[u8]) -> bool {
    let (Ok(dir), Ok(path)) = (directory(host), canonical(path)) else { return false };
    let Ok(written) = fs::read(dir.join(record_name(&path, &Digest::of(content)))) else {
        return false;
    };
    private(host, &dir).is_ok() && written == path.as_os_str().as_bytes()
}

/// Records that the user trusts the file at `path` with this content.
pub fn record(host: &Host, path: &Path, content: &[u8]) -> Result<(), TrustError> {
    record_digest(host, path, &Digest::of(content))
}

/// Records that the user trusts the file at `path` with the content of this hash, which is the content that was shown.
pub fn record_digest(host: &Host, path: &Path, digest: &Digest) -> Result<(), TrustError> {
    let (dir, path) = (directory(host)?, canonical(path)?);
    let target = dir.join(record_name(&path, digest));
    let failed = |source| TrustError::Record { path: target.clone(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed)?;
    private(host, &dir)?;
    let replace = Replace {
        draft: DraftName::PerProcess, // every run may record trust
        ..Replace::private(Durability::Content)
    };
    replace.write(&target, path.as_os_str().as_bytes()).map_err(failed)
}

/// Removes the records of the file at `path` for all contents, and returns their number. The file need not exist.
pub fn revoke(host: &Host, path: &Path) -> Result<usize, TrustError> {
    let path = canonical(path).unwrap_or_else(|_| path.to_owned());
    let dir = directory(host)?;
    let mut count = 0;
    for known in list(host)?.into_iter().filter(|known| known.path == path) {
        let file = dir.join(record_name(&known.path, &known.digest));
        fs::remove_file(&file).map_err(|source| TrustError::Record { path: file, source })?;
        count += 1;
    }
    Ok(count)
}

/// Returns every trusted file, sorted by path.
pub fn list(host: &Host) -> Result<Vec<TrustRecord>, TrustError> {
    let dir = directory(host)?;
    let failed = |source| TrustError::Record { path: dir.clone(), source };
    let entries = match fs::read_dir(&dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut records = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        records.extend(read_record(&entry.path(), &entry.file_name()).map_err(failed)?);
    }
    records.sort();
    Ok(records)
}

/// Reads a record. Returns `None` for other files, such as a draft of a killed process.
fn read_record(file: &Path, name: &OsStr) -> io::Result<Option<TrustRecord>> {
    let name = name.to_str().filter(|name| !name.starts_with('.')).unwrap_or_default();
    let Some((_, digest)) = name.split_once('-') else { return Ok(None) };
    let path = PathBuf::from(OsStr::from_bytes(&fs::read(file)?));
    let digest = Digest(digest.to_owned());
    let genuine = *name == *record_name(&path, &digest);
    Ok(genuine.then_some(TrustRecord { path, digest }))
}

fn record_name(path: &Path, digest: &Digest) -> String {
    format!("{}-{digest}", Digest::of(path.as_os_str().as_bytes()))
}

fn directory(host: &Host) -> Result<PathBuf, TrustError> {
    host.state_dir().map(|dir| dir.join("trust")).ok_or(TrustError::NoState)
}

/// Resolves the directory but not the file name: a link in one project must not inherit the trust in its target in
/// another project.
fn canonical(path: &Path) -> Result<PathBuf, TrustError> {
    let failed = |source| TrustError::File { path: path.to_owned(), source };
    let name = path.file_name().ok_or_else(|| failed(ErrorKind::InvalidInput.into()))?;
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(fs::canonicalize(parent).map_err(failed)?.join(name))
}

fn private(host: &Host, dir: &Path) -> Result<(), TrustError> {
    let meta =
        fs::metadata(dir).map_err(|source| TrustError::Record { path: dir.to_owned(), source })?;
    if meta.uid() != host.uid || meta.mode() & 0o022 != 0 {
        return Err(TrustError::Shared { dir: dir.to_owned() });
    }
    Ok(())
}
