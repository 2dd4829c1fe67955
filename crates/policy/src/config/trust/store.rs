//! The user's answers, one small file each, in the state directory that no sandbox can write.
//!
//! A record's name holds the hash of the file's path and the hash of its content; its content is the path.

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

/// A file that the user trusts, with this content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct TrustRecord {
    /// The file.
    pub path: PathBuf,
    /// Its content.
    pub digest: Digest,
}

/// Why an answer cannot be kept.
#[derive(Debug, Error)]
pub enum TrustError {
    /// There is no state directory.
    #[error("there is no place for trust records, because `HOME` is not set")]
    NoState,
    /// Somebody else could write there.
    #[error("the trust records in `{}` can be written by others", dir.display())]
    Shared {
        /// The directory.
        dir: PathBuf,
    },
    /// The file cannot be found.
    #[error("cannot find `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The record cannot be read or written.
    #[error("cannot keep the trust record `{}`", path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Hint for TrustError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoState => Some("set `HOME` or `XDG_STATE_HOME`".to_owned()),
            Self::Shared { dir } => Some(format!("`chmod 700 {}`, as its owner", dir.display())),
            Self::File { .. } | Self::Record { .. } => None,
        }
    }
}

/// Whether the user trusts the file at `path` with this content. What cannot be told is not trusted.
pub fn is_trusted(host: &Host, path: &Path, content: &[u8]) -> bool {
    let (Ok(dir), Ok(path)) = (directory(host), canonical(path)) else { return false };
    let Ok(written) = fs::read(dir.join(record_name(&path, &Digest::of(content)))) else {
        return false;
    };
    private(host, &dir).is_ok() && written == path.as_os_str().as_bytes()
}

/// Remembers that the user trusts the file at `path` with this content.
pub fn record(host: &Host, path: &Path, content: &[u8]) -> Result<(), TrustError> {
    record_digest(host, path, &Digest::of(content))
}

/// Remembers that the user trusts the file at `path` with the content of this hash: the one that was shown.
pub fn record_digest(host: &Host, path: &Path, digest: &Digest) -> Result<(), TrustError> {
    let (dir, path) = (directory(host)?, canonical(path)?);
    let target = dir.join(record_name(&path, digest));
    let failed = |source| TrustError::Record { path: target.clone(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed)?;
    private(host, &dir)?;
    let way = Replace {
        draft: DraftName::PerProcess, // every run may record trust
        ..Replace::private(Durability::Content)
    };
    way.write(&target, path.as_os_str().as_bytes()).map_err(failed)
}

/// Forgets every content of the file at `path`; says how many there were. The file may be gone.
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

/// Every file that the user trusts, by path.
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

/// A record, or `None` for a file that is none, such as one that a killed writer left.
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

/// The directory resolved, the name not: a link in one project must not borrow the trust that
/// its target has in another.
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
