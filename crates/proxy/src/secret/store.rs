//! Store of secrets: one file with mode 0600, each secret encrypted separately.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use sandbox_linux::lock::LockFile;
use sandbox_linux::replace::{Durability, Replace};
use sandbox_linux::{clock, hex};
use sandbox_protocol::{ExitCode, Hint};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::keyring::{self, KeyStorage};
use super::seal::Sealer;
use crate::credential::Secret;

/// Name of a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// Returns true for text that starts like an API key, for commands that expect the name of a secret.
pub fn looks_like_a_key(text: &str) -> bool {
    const PREFIXES: [&str; 8] =
        ["sk-", "sk_", "AIza", "ghp_", "github_pat_", "glpat-", "xoxb-", "session-"];
    // Names are shorter.
    const SHORTEST: usize = 20;
    text.len() >= SHORTEST && PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

impl Name {
    /// Parses a name.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if begins && text.len() <= 64 && text.bytes().all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(StoreError::Name)
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = StoreError;

    fn try_from(text: String) -> Result<Self, StoreError> {
        Self::parse(&text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Failure of a store operation.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The name is invalid.
    // The text is not repeated, because it may be a secret that was passed as a name.
    #[error("invalid secret name")]
    Name,
    /// The secret does not exist.
    #[error("secret `{0}` is not stored")]
    Missing(Name),
    /// The secret is empty.
    #[error("the secret is empty")]
    Empty,
    /// The file is not usable.
    #[error("cannot {what} `{}`", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file has another format or version.
    #[error("`{}` is not a secret store", .0.display())]
    Format(PathBuf),
    /// The key is not available.
    #[error("cannot read the key of the secret store")]
    Key(KeyStorage, #[source] io::Error),
    /// The entry was modified, or the key is different.
    #[error("cannot decrypt stored secret `{0}`")]
    Sealed(Name),
}

impl Hint for StoreError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Name => Some("use up to 64 letters, digits, `-`, `_` and `.`".into()),
            Self::Missing(name) => Some(format!("run `agent-sandbox secret set {name}`")),
            Self::Empty => Some("type it at the prompt, or pass it on standard input".into()),
            Self::Format(path) => Some(format!(
                "move `{}` away, then store the secrets again with `agent-sandbox secret set`",
                path.display()
            )),
            Self::Key(KeyStorage::Keyring, _) => {
                Some("unlock the keyring, for example by logging in".into())
            }
            Self::Key(KeyStorage::File, _) => {
                Some("check the file `key` next to the store: it must exist with mode 0600".into())
            }
            Self::Sealed(name) => {
                Some(format!("store it again with `agent-sandbox secret set {name}`"))
            }
            Self::Io { .. } => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        if matches!(self, Self::Name) { ExitCode::Usage } else { ExitCode::Failure }
    }
}

/// Stored secret without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredSecret {
    /// The name.
    pub name: Name,
    /// Time when it was stored, in seconds since 1970.
    pub since: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    key: KeyStorage,
    secrets: BTreeMap<Name, Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    sealed: String,
    since: u64,
}

const VERSION: u32 = 1;

/// Store of a user's secrets.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// Returns the store in a directory, which need not exist yet.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    fn file(&self) -> PathBuf {
        self.dir.join("secrets.json")
    }

    fn key_file(&self) -> PathBuf {
        self.dir.join("key")
    }

    /// Stores a secret. Replaces an older one with the same name.
    pub fn set(&self, name: &Name, secret: &Secret) -> Result<KeyStorage, StoreError> {
        if secret.expose().is_empty() {
            return Err(StoreError::Empty);
        }
        let _alone = self.lock()?;
        let (mut content, key) = match self.read()? {
            Some(content) => {
                let key = self.sealer(content.key)?;
                (content, key)
            }
            None => self.begin()?,
        };
        let sealed = key.seal(name.as_str(), secret.expose()).map_err(self.failed("seal for"))?;
        content
            .secrets
            .insert(name.clone(), Entry { sealed: hex::encode(&sealed), since: clock::now() });
        self.write(&content)?;
        Ok(content.key)
    }

    /// Returns a secret.
    pub fn get(&self, name: &Name) -> Result<Secret, StoreError> {
        let missing = || StoreError::Missing(name.clone());
        let content = self.read()?.ok_or_else(missing)?;
        let entry = content.secrets.get(name).ok_or_else(missing)?;
        let sealed = hex::decode(&entry.sealed).ok_or_else(|| StoreError::Format(self.file()))?;
        let text = self.sealer(content.key)?.open(name.as_str(), &sealed);
        text.map(|text| Secret::from(text.to_string()))
            .ok_or_else(|| StoreError::Sealed(name.clone()))
    }

    /// Returns true when a secret with this name is stored.
    pub fn has(&self, name: &Name) -> Result<bool, StoreError> {
        Ok(self.read()?.is_some_and(|content| content.secrets.contains_key(name)))
    }

    /// Removes a secret.
    pub fn remove(&self, name: &Name) -> Result<(), StoreError> {
        let missing = || StoreError::Missing(name.clone());
        if self.read()?.is_none() {
            return Err(missing());
        }
        let _alone = self.lock()?;
        let mut content = self.read()?.ok_or_else(missing)?;
        content.secrets.remove(name).ok_or_else(missing)?;
        self.write(&content)
    }

    /// Returns all entries and the storage of the key, or `None` when the store does not exist.
    pub fn list(&self) -> Result<Option<(KeyStorage, Vec<StoredSecret>)>, StoreError> {
        let kept = |content: Content| {
            let kept = content
                .secrets
                .into_iter()
                .map(|(name, entry)| StoredSecret { name, since: entry.since });
            (content.key, kept.collect())
        };
        Ok(self.read()?.map(kept))
    }

    fn begin(&self) -> Result<(Content, Sealer), StoreError> {
        let file = self.key_file();
        // Left behind when an earlier call was killed before it wrote the store. Nothing is encrypted with it.
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(self.failed("replace the key of")(error));
            }
            _ => {}
        }
        let (place, key) = keyring::make(&file).map_err(self.failed("create a key for"))?;
        let sealer = Sealer::new(&key).map_err(self.failed("create a key for"))?;
        Ok((Content { version: VERSION, key: place, secrets: BTreeMap::new() }, sealer))
    }

    fn sealer(&self, storage: KeyStorage) -> Result<Sealer, StoreError> {
        let wrong = |error| StoreError::Key(storage, error);
        let key = keyring::read(storage, &self.key_file()).map_err(wrong)?;
        Sealer::new(&key).map_err(wrong)
    }

    fn read(&self) -> Result<Option<Content>, StoreError> {
        let bytes = match fs::read(self.file()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("read")(error)),
        };
        let content: Content =
            serde_json::from_slice(&bytes).map_err(|_| StoreError::Format(self.file()))?;
        if content.version == VERSION {
            Ok(Some(content))
        } else {
            Err(StoreError::Format(self.file()))
        }
    }

    /// Replaces the file atomically.
    fn write(&self, content: &Content) -> Result<(), StoreError> {
        let write = || {
            let text = serde_json::to_vec(content)?;
            Replace::private(Durability::Name).write(&self.file(), &text)
        };
        write().map_err(self.failed("write"))
    }

    /// Locks the store. Concurrent writers would lose entries.
    fn lock(&self) -> Result<LockFile, StoreError> {
        let lock = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
            LockFile::take(&self.dir.join("lock"))
        };
        lock().map_err(self.failed("lock"))
    }

    fn failed(&self, what: &'static str) -> impl FnOnce(io::Error) -> StoreError {
        let path = self.file();
        move |source| StoreError::Io { what, path, source }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn secret(text: &str) -> Secret {
        Secret::from(text.to_owned())
    }

    #[test]
    fn secrets_are_kept_replaced_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path().join("secrets"));
        assert_eq!(store.list().unwrap(), None);
        assert!(matches!(store.get(&name("a")), Err(StoreError::Missing(_))));
        store.set(&name("a"), &secret("first-value")).unwrap();
        store.set(&name("b"), &secret("other-value")).unwrap();
        store.set(&name("a"), &secret("second-value")).unwrap();
        assert_eq!(store.get(&name("a")).unwrap().expose(), "second-value");
        assert_eq!(store.get(&name("b")).unwrap().expose(), "other-value");
        store.remove(&name("a")).unwrap();
        assert!(matches!(store.remove(&name("a")), Err(StoreError::Missing(_))));
        assert!(!store.has(&name("a")).unwrap() && store.has(&name("b")).unwrap());
        assert!(matches!(store.set(&name("c"), &secret("")), Err(StoreError::Empty)));
    }

    #[test]
    fn files_are_for_their_owner_and_hold_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path().join("secrets"));
        store.set(&name("a"), &secret("clear-text")).unwrap();
        for entry in fs::read_dir(dir.path().join("secrets")).unwrap() {
            let path = entry.unwrap().path();
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", path.display());
            let bytes = fs::read(&path).unwrap();
            assert!(!bytes.windows(10).any(|part| part == b"clear-text"), "{}", path.display());
        }
        fs::set_permissions(store.key_file(), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(store.get(&name("a")), Err(StoreError::Key(KeyStorage::File, _))));
    }

    #[test]
    fn get_fails_when_two_entries_are_swapped() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path());
        store.set(&name("a"), &secret("value-of-a")).unwrap();
        store.set(&name("b"), &secret("value-of-b")).unwrap();
        let text = fs::read_to_string(store.file()).unwrap();
        let swapped =
            text.replace("\"a\"", "\"x\"").replace("\"b\"", "\"a\"").replace("\"x\"", "\"b\"");
        fs::write(store.file(), swapped).unwrap();
        assert!(matches!(store.get(&name("a")), Err(StoreError::Sealed(_))));
        fs::write(store.file(), "{").unwrap();
        assert!(matches!(store.get(&name("a")), Err(StoreError::Format(_))));
    }

    #[test]
    fn concurrent_writers_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path());
        std::thread::scope(|scope| {
            for number in 0..8 {
                let store = store.clone();
                scope.spawn(move || {
                    store.set(&name(&format!("n{number}")), &secret("value")).unwrap()
                });
            }
        });
        assert_eq!(store.list().unwrap().unwrap().1.len(), 8);
    }

    #[test]
    fn names_are_not_paths() {
        for text in ["a", "openai", "GITHUB_TOKEN", "a.b-c"] {
            assert!(Name::parse(text).is_ok(), "{text}");
        }
        for text in ["", ".", "../a", "a/b", "-a", "a b", "ä", "a\n", &"a".repeat(65)] {
            assert!(Name::parse(text).is_err(), "{text}");
        }
    }
}
