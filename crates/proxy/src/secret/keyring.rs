//! Encryption key of the store, in the system keyring or in a file with mode 0600.
//!
//! The keyring is accessed with `secret-tool`, which distributions package, so that the static binary needs no D-Bus
//! library.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sandbox_linux::hex;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::seal::{KEY, random};

/// Storage of a store's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyStorage {
    /// System keyring, unlocked at login.
    Keyring,
    /// File next to the store.
    File,
}

/// Key bytes.
pub(super) type Key = Zeroizing<[u8; KEY]>;

/// Creates a key and stores it, in the keyring if possible.
pub(super) fn make(file: &Path) -> io::Result<(KeyStorage, Key)> {
    let key = random::<KEY>()?;
    let text = Zeroizing::new(hex::encode(key.as_slice()));
    if is_available()
        && keep_in_keyring(file, &text).is_ok()
        && from_keyring(file).ok() == Some(key.clone())
    {
        return Ok((KeyStorage::Keyring, key));
    }
    let mut out = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    Ok((KeyStorage::File, key))
}

/// Reads the key that [`make`] stored.
pub(super) fn read(storage: KeyStorage, file: &Path) -> io::Result<Key> {
    match storage {
        KeyStorage::Keyring => from_keyring(file),
        KeyStorage::File => from_file(file),
    }
}

fn from_file(file: &Path) -> io::Result<Key> {
    let found = fs::symlink_metadata(file)?;
    if !found.is_file() || found.mode() & 0o077 != 0 {
        let wrong = format!("`{}` is readable by other users", file.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, wrong));
    }
    parse(&Zeroizing::new(fs::read_to_string(file)?))
}

fn parse(text: &str) -> io::Result<Key> {
    let bytes = hex::decode(text.trim()).map(Zeroizing::new).ok_or(io::ErrorKind::InvalidData)?;
    let mut key = Zeroizing::new([0; KEY]);
    if bytes.len() != KEY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    key.copy_from_slice(&bytes);
    Ok(key)
}

/// Returns true when the keyring is usable. Without a session bus, `secret-tool` would block.
fn is_available() -> bool {
    sandbox_policy::Host::read().var("DBUS_SESSION_BUS_ADDRESS").is_some() && tool().is_some()
}

/// Returns the path of `secret-tool`. Only system directories count, because an agent may be able to write elsewhere.
fn tool() -> Option<PathBuf> {
    ["/usr/bin/secret-tool", "/bin/secret-tool"]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.is_file())
}

/// Returns the lookup attributes. They include the store's path, so each store has its own key.
fn attributes(file: &Path) -> [String; 4] {
    let store = file.display().to_string();
    ["application".to_owned(), "agent-sandbox".to_owned(), "store".to_owned(), store]
}

fn keep_in_keyring(file: &Path, text: &str) -> io::Result<()> {
    let mut child = start(&["store", "--label=agent-sandbox: key of the secret store"], file)?;
    child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?.write_all(text.as_bytes())?;
    if child.wait()?.success() { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
}

fn from_keyring(file: &Path) -> io::Result<Key> {
    let output = start(&["lookup"], file)?.wait_with_output()?;
    if !output.status.success() {
        let why = "the keyring did not return the key; it may be locked";
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    let text = Zeroizing::new(String::from_utf8(output.stdout).unwrap_or_default());
    parse(&text)
}

fn start(words: &[&str], file: &Path) -> io::Result<std::process::Child> {
    let tool = tool()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "`secret-tool` is not installed"))?;
    let mut command = sandbox_linux::process::command(tool);
    command.args(words).args(attributes(file));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}
