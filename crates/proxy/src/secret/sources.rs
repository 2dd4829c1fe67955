//! Reading of secrets from their locations.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sandbox_policy::catalog::Login;
use sandbox_protocol::Hint;
use zeroize::Zeroizing;

use super::{Location, Store, command, login, renew};
use crate::credential::{Resolved, Secret, SecretRef, Source, SourceError};

/// Size limit of a file.
const LARGEST: u64 = 64 << 10;
/// Time after which a stored secret is read again, because it may have been replaced.
const AGAIN: Duration = Duration::from_secs(10);

/// Reader of all locations of a user's secrets.
#[derive(Debug, Clone)]
pub struct Sources {
    store: Store,
    home: PathBuf,
}

impl Sources {
    /// Creates a reader for a user's store and home directory.
    pub fn new(store: Store, home: impl Into<PathBuf>) -> Self {
        Self { store, home: home.into() }
    }

    /// Reads the secret at a location. Environment variables belong to the caller, so the proxy cannot read them.
    pub fn at(&self, location: &Location) -> Result<Resolved, SourceError> {
        match location {
            Location::Store(name) => {
                let secret = self.store.get(name).map_err(|error| {
                    let hint = error.hint().unwrap_or_default();
                    SourceError { message: sandbox_linux::error::chain(&error), hint }
                })?;
                Ok(lasting(secret, Some(AGAIN)))
            }
            Location::Env(name) => Err(SourceError {
                message: format!("{location} is not set"),
                hint: format!(
                    "set `{name}`, or store the secret with `agent-sandbox secret set NAME`"
                ),
            }),
            Location::File(path) => {
                let text = read(path).map_err(|error| unreadable(location, &error))?;
                whole(text.trim_end_matches(['\n', '\r']), location, AGAIN)
            }
            Location::EnvFile { path, name } => {
                let text = read(path).map_err(|error| unreadable(location, &error))?;
                whole(
                    &Zeroizing::new(
                        sandbox_policy::config::env_file::value(&text, name).unwrap_or_default(),
                    ),
                    location,
                    AGAIN,
                )
            }
            Location::Command { argv, lasting } => {
                let text = command::ask(argv).map_err(|error| unreadable(location, &error))?;
                whole(&text, location, (*lasting).into())
            }
            Location::Login(which) => self.login(which, location),
        }
    }

    fn login(&self, which: &Login, location: &Location) -> Result<Resolved, SourceError> {
        let file = login::file(which, &self.home);
        let wrong = |message: String| SourceError { message, hint: which.remedy.into() };
        let token = || {
            let text =
                read(&file).map_err(|error| wrong(format!("cannot read {location}: {error}")))?;
            login::token(which, &text).ok_or_else(|| wrong(format!("{location} contains no token")))
        };
        let found = token()?;
        if renew::is_good(&found) {
            return Ok(found);
        }
        match renew::renew(which, &file) {
            Ok(()) => token(),
            // A token about to expire is better than none.
            Err(_) if found.expires.is_some_and(|end| end > SystemTime::now()) => Ok(found),
            Err(error) => Err(wrong(format!(
                "{location} has expired and cannot be renewed: {}",
                sandbox_linux::error::chain(&error)
            ))),
        }
    }
}

impl Source for Sources {
    fn check(&self, reference: &SecretRef) -> Result<(), SourceError> {
        location(reference).map(drop)
    }

    fn resolve(&self, reference: &SecretRef) -> Result<Resolved, SourceError> {
        self.at(&location(reference)?)
    }
}

fn location(reference: &SecretRef) -> Result<Location, SourceError> {
    serde_json::from_value(reference.0.clone()).map_err(|error| SourceError {
        message: format!("invalid reference to a secret: {error}"),
        hint: r#"use `{"store": "NAME"}`, `{"file": "PATH"}`, or send the key as `api_key`"#.into(),
    })
}

fn read(path: &Path) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    File::open(path)?.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

fn lasting(value: Secret, lasting: Option<Duration>) -> Resolved {
    let expires = lasting.map(|lasting| SystemTime::now() + lasting);
    Resolved { value, headers: Vec::new(), expires }
}

fn whole(text: &str, location: &Location, good_for: Duration) -> Result<Resolved, SourceError> {
    if text.is_empty() {
        return Err(SourceError {
            message: format!("{location} is empty"),
            hint: "add the secret there".into(),
        });
    }
    Ok(lasting(Secret::from(text.to_owned()), Some(good_for)))
}

/// Returns an error without the output of a command or the content of a file, which could be the secret.
fn unreadable(location: &Location, error: &io::Error) -> SourceError {
    SourceError {
        message: format!("cannot read {location}: {error}"),
        hint: "try to read it yourself".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_location_returns_its_secret_and_an_empty_one_fails() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path().join("store"));
        let name = super::super::Name::parse("one").unwrap();
        store.set(&name, &Secret::from("stored".to_owned())).unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "in a file\n").unwrap();
        let lines = dir.path().join(".env");
        std::fs::write(&lines, "A=1\nB=in a line\nC=\n").unwrap();
        let sources = Sources::new(store, dir.path());
        let line = |name: &str| Location::EnvFile { path: lines.clone(), name: name.into() };
        let said = |words: &[&str]| Location::Command {
            argv: words.iter().map(|word| (*word).to_owned()).collect(),
            lasting: super::super::Lasting::default(),
        };
        for (location, expected) in [
            (Location::Store(name), Some("stored")),
            (Location::File(file), Some("in a file")),
            (line("B"), Some("in a line")),
            (line("C"), None),
            (line("D"), None),
            (said(&["/bin/echo", "said"]), Some("said")),
            (said(&["/bin/echo"]), None),
            (said(&["/bin/false"]), None),
            (said(&["/no/such/program"]), None),
            (said(&[]), None),
            (Location::File(dir.path().join("none")), None),
            (Location::Env("X".into()), None),
            (Location::Login(Login::named("codex").unwrap()), None),
        ] {
            let found = sources.at(&location);
            assert_eq!(
                found.as_ref().ok().map(|found| found.value.expose()),
                expected,
                "{location}"
            );
            if let Err(error) = found {
                assert!(!error.hint.is_empty(), "{location}");
            }
        }
    }

    #[test]
    fn references_survive_a_round_trip() {
        let location =
            |text: &str| super::location(&SecretRef(serde_json::from_str(text).unwrap()));
        for good in [
            r#"{"store":"one"}"#,
            r#"{"file":"/x"}"#,
            r#"{"env_file":{"path":"/x","name":"A"}}"#,
            r#"{"command":{"argv":["a","b"],"lasting":60}}"#,
            r#"{"command":{"argv":["a"]}}"#,
            r#"{"login":"codex"}"#,
        ] {
            let read = location(good).unwrap();
            assert_eq!(location(&serde_json::to_string(&read).unwrap()).unwrap(), read);
        }
        for wrong in [r#""one""#, r#"{"store":"../x"}"#, r#"{"stor":"x"}"#, "{}", "7"] {
            assert!(location(wrong).is_err(), "{wrong}");
        }
    }
}
