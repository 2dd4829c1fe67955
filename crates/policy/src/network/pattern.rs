//! What a line of `allowed_hosts` or `denied_hosts` means: `NAME`, `*.NAME`, an address; each with
//! a port if only that one is meant.

use std::fmt;
use std::str::FromStr;

use sandbox_protocol::Hint;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::host::{self, HostError, HostName, HostPort};

/// A pattern of hosts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern {
    /// Whether it means the hosts below the name, at any depth, and not the name itself.
    below: bool,
    host: HostName,
    port: Option<u16>,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    /// The host is none.
    #[error("the host `{}` {problem}", text.escape_debug())]
    Host {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: HostError,
    },
    /// A `*` that does not stand alone at the front.
    #[error("`{}` has a `*` in a place where it means nothing", .0.escape_debug())]
    Star(String),
    /// `*`, `*.com`, `*.github.io`: names that belong to everybody.
    #[error("`{}` is too wide: everybody can have a name below it", .0.escape_debug())]
    TooWide(String),
}

impl Hint for PatternError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Host { problem, .. } => problem.hint(),
            Self::Star(_) => Some("write `*.NAME` for all hosts below NAME".to_owned()),
            Self::TooWide(text) if text == "*" => {
                Some("`network = true` lets everything through".to_owned())
            }
            Self::TooWide(_) => Some("name the hosts that are meant".to_owned()),
        }
    }
}

impl FromStr for HostPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let wrong = |problem| PatternError::Host { text: text.to_owned(), problem };
        let (host, port) = split(text).map_err(wrong)?;
        if host == "*" {
            return Err(PatternError::TooWide("*".to_owned()));
        }
        let (below, name) = match host.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, host),
        };
        if name.contains('*') {
            return Err(PatternError::Star(text.to_owned()));
        }
        let name: HostName = name.parse().map_err(wrong)?;
        match &name {
            HostName::Ip(_) if below => Err(PatternError::Star(text.to_owned())),
            HostName::Dns(name) if below && is_public(name) => {
                Err(PatternError::TooWide(text.to_owned()))
            }
            _ => Ok(Self { below, host: name, port }),
        }
    }
}

/// Host and port. An address of IPv6 may stand without brackets where no port follows.
fn split(text: &str) -> Result<(&str, Option<u16>), HostError> {
    if text.matches(':').count() > 1 && !text.starts_with('[') {
        return Ok((text, None));
    }
    match host::split(text) {
        (host, Some(digits)) => Ok((host, Some(host::port(digits)?))),
        (host, None) => Ok((host, None)),
    }
}

/// Whether unrelated people have names directly below this one: the public suffix list. A name of
/// one part that nobody registered, such as `internal`, counts too.
fn is_public(name: &str) -> bool {
    psl::suffix_str(name).is_none_or(|suffix| suffix == name)
}

impl HostPattern {
    /// Exactly one host, on every port.
    pub fn exact(host: HostName) -> Self {
        Self { below: false, host, port: None }
    }

    /// Whether it means this host, on whatever port.
    pub fn matches_host(&self, host: &HostName) -> bool {
        if !self.below {
            return *host == self.host;
        }
        let mut labels = host.labels();
        self.host.labels().all(|own| labels.next() == Some(own)) && labels.next().is_some()
    }

    /// Whether it means this host and port.
    pub fn matches(&self, asked: &HostPort) -> bool {
        self.port.is_none_or(|port| port == asked.port) && self.matches_host(&asked.host)
    }

    /// Whether everything that `other` means is meant by this one, too.
    pub fn covers(&self, other: &Self) -> bool {
        let ports = self.port.is_none() || self.port == other.port;
        let hosts = match (self.below, other.below) {
            (false, true) => false,
            (true, true) => self.host == other.host || self.matches_host(&other.host),
            (_, false) => self.matches_host(&other.host),
        };
        ports && hosts
    }

    /// The host, when it means only one.
    pub fn single(&self) -> Option<&HostName> {
        (!self.below).then_some(&self.host)
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.below { "*." } else { "" };
        write!(f, "{star}{}", self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl TryFrom<String> for HostPattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        text.parse()
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        pattern.to_string()
    }
}
