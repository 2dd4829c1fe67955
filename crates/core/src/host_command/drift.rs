//! What the container's list and the host's list do not have in common.

use std::ffi::OsString;

use super::entry::Entry;
use super::list::HostList;

/// A difference between the two lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drift {
    /// The container routes it, the host refuses it.
    NotOnHost(String),
    /// The host allows it, the container does not know.
    NotInContainer(String),
    /// The container routes more than the host allows: `git` here, `git status` there.
    Narrower {
        /// The container's entry.
        container: String,
        /// What the host allows of it.
        host: Vec<String>,
    },
}

impl Drift {
    /// One line about it.
    pub fn text(&self) -> String {
        match self {
            Self::NotOnHost(entry) => format!("`{entry}` is sent to the host, which denies it"),
            Self::NotInContainer(entry) => {
                format!("`{entry}` is allowed on the host, but no container sends it there")
            }
            Self::Narrower { container, host } => {
                format!(
                    "`{container}` is sent to the host, which allows only `{}`",
                    host.join("`, `")
                )
            }
        }
    }
}

/// Compares the list of a container with that of the host.
pub fn drift(container: &[Entry], host: &HostList) -> Vec<Drift> {
    let argv = |entry: &Entry| entry.words.iter().map(OsString::from).collect::<Vec<_>>();
    let mut found = Vec::new();
    for entry in container {
        if host.find(&argv(entry)).is_some() {
            continue;
        }
        let narrower: Vec<String> = host
            .allowed
            .iter()
            .filter(|other| entry.covers(&argv(other)))
            .map(Entry::text)
            .collect();
        found.push(if narrower.is_empty() {
            Drift::NotOnHost(entry.text())
        } else {
            Drift::Narrower { container: entry.text(), host: narrower }
        });
    }
    let unknown = host.allowed.iter().filter(|entry| {
        let words = argv(entry);
        !container.iter().any(|other| other.covers(&words) || entry.covers(&argv(other)))
    });
    found.extend(unknown.map(|entry| Drift::NotInContainer(entry.text())));
    found
}
