//! `authorized_keys`: the line that authorizes a session's key, and the file for it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sandbox_linux::lock::LockFile;
use sandbox_linux::replace::{Draft, Durability, Mode};
use thiserror::Error;

use crate::list::{FORCED_COMMAND, HOST_LIST, HostList};

/// Reason why a key cannot be authorized.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LineError {
    /// No public key.
    #[error("the key file contains no public key")]
    NoKey,
    /// Invalid pattern list of addresses.
    #[error("invalid address list `{0}`")]
    From(String),
    /// Invalid expiry time.
    #[error("invalid expiry time `{0}`; expected a date such as 20270131")]
    Expires(String),
}

/// Returns the line of `authorized_keys` that restricts a key to the forced command: sshd(8).
pub fn line(key: &str, from: Option<&str>, expires: Option<&str>) -> Result<String, LineError> {
    let key = key.trim();
    let plain = |c: char| c.is_ascii_graphic() || c == ' ';
    if !key.starts_with("ssh-") && !key.starts_with("ecdsa-") || !key.chars().all(plain) {
        return Err(LineError::NoKey);
    }
    let mut options = format!("restrict,command=\"{FORCED_COMMAND}\"");
    if let Some(from) = from {
        if !from.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\\') {
            return Err(LineError::From(from.into()));
        }
        options.extend([",from=\"", from, "\""]);
    }
    if let Some(expires) = expires {
        if ![8, 12, 14].contains(&expires.len())
            || !expires.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(LineError::Expires(expires.into()));
        }
        options.extend([",expiry-time=\"", expires, "\""]);
    }
    Ok(format!("{options} {key}\n"))
}

/// Returns the deployment's key file for this user, if its list names one.
pub fn place(user: &str) -> Option<PathBuf> {
    let place = HostList::read_enforced(Path::new(HOST_LIST)).ok()?.authorized_keys?;
    Some(place.to_str()?.replace("%u", user).into())
}

/// Returns true if the caller or root owns the file and no other user can replace it.
pub fn may_write(place: &Path) -> bool {
    let own = rustix::process::geteuid();
    let is_safe = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|about| {
            about.is_dir() && about.mode() & 0o022 == 0 && [0, own.as_raw()].contains(&about.uid())
        })
    };
    let may = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    let Some(dir) = place.parent() else { return false };
    if dir.try_exists().unwrap_or(false) {
        return is_safe(dir) && may(dir);
    }
    dir.parent().is_some_and(|above| is_safe(above) && may(above))
}

/// Adds a line to a file of keys.
pub fn add(place: &Path, line: &str) -> io::Result<()> {
    change(place, |text| text.push_str(line))
}

/// Removes the lines with this comment from a file of keys. A missing file has none.
pub fn remove(place: &Path, comment: &str) -> io::Result<()> {
    let mark = format!(" {comment}");
    if !place.try_exists().unwrap_or(true) {
        return Ok(());
    }
    change(place, |text| {
        let kept = text.split_inclusive('\n').filter(|line| !line.trim_end().ends_with(&mark));
        *text = kept.collect();
    })
}

/// Replaces a file by a changed copy with the same owner and mode. A lock serializes changes.
fn change(place: &Path, change: impl FnOnce(&mut String)) -> io::Result<()> {
    let dir = place.parent().unwrap_or(Path::new("/"));
    if !dir.try_exists()? {
        DirBuilder::new().mode(0o755).create(dir)?;
    }
    let alone = LockFile::existing(dir)?;
    alone.exclusive()?;
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut text = String::new();
    let old = match OpenOptions::new().read(true).custom_flags(no_link).open(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        old => Some(old?),
    };
    if let Some(mut old) = old.as_ref() {
        old.read_to_string(&mut text)?;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    change(&mut text);
    let draft = place.with_extension("agent-sandbox-new");
    let draft = Draft::create(place, draft, Mode::Masked(0o600))?;
    let written = fill(draft.file(), &text, old.as_ref());
    draft.finish(written, Durability::Content)
}

/// Writes the new file with the owner and mode of the old one.
fn fill(mut new: &File, text: &str, old: Option<&File>) -> io::Result<()> {
    new.write_all(text.as_bytes())?;
    let about = old.map(File::metadata).transpose()?;
    if let Some(about) = &about {
        fchown(new, Some(about.uid()), Some(about.gid()))?;
    }
    // sshd reads the file as the user who logs in.
    let mode = about.map_or(0o644, |about| about.mode() & 0o777);
    new.set_permissions(Permissions::from_mode(mode))
}
