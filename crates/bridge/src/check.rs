//! Comparison of configured host commands with the host's list.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use sandbox_policy::config::command::Entry;

use crate::list::{HostList, ListError};
use crate::verdict::{Warning, warnings};

/// Host commands of a configuration compared with the host's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Host's list, if there is one.
    pub list: Option<HostList>,
    /// Warnings about entries.
    pub warnings: Vec<Warning>,
    /// Differences.
    pub drifts: Vec<Drift>,
}

impl Comparison {
    /// Compares the commands that a container sends to the host with a list, which may be missing.
    pub fn of(container: &[Entry], list: &Path) -> Result<Self, ListError> {
        let list = match HostList::read_enforced(list) {
            Err(ListError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            read => Some(read?),
        };
        let allowed = list.as_ref().map_or(container, |list| list.allowed.as_slice());
        let warnings = warnings(allowed);
        let drifts = list.as_ref().map_or_else(Vec::new, |list| drift(container, list));
        Ok(Self { list, warnings, drifts })
    }

    /// Returns true if the host denies a command that the container sends to it.
    pub fn denies(&self) -> bool {
        self.drifts.iter().any(|drift| !matches!(drift, Drift::NotInContainer(_)))
    }
}

/// Difference between the two lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drift {
    /// Command that the container sends and the host denies.
    NotOnHost(String),
    /// Command that the host allows and the container does not send.
    NotInContainer(String),
    /// Entry of the container that covers more than the host allows, such as `git` and `git status`.
    Narrower {
        /// Container's entry.
        container: String,
        /// Entries of the host.
        host: Vec<String>,
    },
}

impl Drift {
    /// Describes the difference in one line.
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

/// Compares the container's entries with the host's list.
pub(crate) fn drift(container: &[Entry], host: &HostList) -> Vec<Drift> {
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
