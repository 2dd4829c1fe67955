//! Patterns of `allowed_hosts` and `denied_hosts`: `NAME`, `*.NAME` or an address, each with an optional port.

use std::fmt;
use std::str::FromStr;

use sandbox_protocol::Hint;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::host::{self, HostError, HostName, HostPort};

/// A pattern that matches hosts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern {
    /// True if the pattern matches all subdomains, at any depth, but not the name itself.
    below: bool,
    host: HostName,
    port: Option<u16>,
}

/// Reason why a text is not a valid pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    /// The host is invalid.
    #[error("the host `{}` {problem}", text.escape_debug())]
    Host {
        /// Text of the pattern.
        text: String,
        /// The reason.
        problem: HostError,
    },
    /// The text is a URL.
    #[error("expected a host name, got the URL `{}`", .0.escape_debug())]
    Url(String),
    /// A `*` is not the first label.
    #[error("invalid pattern `{}`: `*` can only replace the first label", .0.escape_debug())]
    Star(String),
    /// The pattern matches names of unrelated owners, such as `*`, `*.com` or `*.github.io`.
    #[error("`{}` is too broad: it matches domains anyone can register", .0.escape_debug())]
    TooBroad(String),
}

impl Hint for PatternError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Host { problem, .. } => problem.hint(),
            Self::Url(url) => Some(match host_of_url(url) {
                Some(host) => format!("write the host alone: `{host}`"),
                None => "write the host alone, such as `api.example.com`".to_owned(),
            }),
            Self::Star(_) => Some("`*.NAME` matches all subdomains of NAME".to_owned()),
            Self::TooBroad(text) if text == "*" => {
                Some("to allow everything, use `network = true` or `--network`".to_owned())
            }
            Self::TooBroad(_) => Some("list the hosts that the command needs".to_owned()),
        }
    }
}

/// Returns the host and port of a URL if they are a valid pattern.
fn host_of_url(url: &str) -> Option<HostPattern> {
    let (_, rest) = url.split_once("://")?;
    rest.split(['/', '?', '#']).next()?.parse().ok()
}

impl FromStr for HostPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let wrong = |problem| PatternError::Host { text: text.to_owned(), problem };
        if text.contains("://") {
            return Err(PatternError::Url(text.to_owned()));
        }
        let (host, port) = split(text).map_err(wrong)?;
        if host == "*" {
            return Err(PatternError::TooBroad("*".to_owned()));
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
                Err(PatternError::TooBroad(text.to_owned()))
            }
            _ => Ok(Self { below, host: name, port }),
        }
    }
}

/// Splits a pattern into host and port. An IPv6 address needs no brackets if no port follows.
fn split(text: &str) -> Result<(&str, Option<u16>), HostError> {
    if text.matches(':').count() > 1 && !text.starts_with('[') {
        return Ok((text, None));
    }
    match host::split(text) {
        (host, Some(digits)) => Ok((host, Some(host::port(digits)?))),
        (host, None) => Ok((host, None)),
    }
}

/// Returns true when subdomains of a name have unrelated owners, by the public suffix list. A single label that is not on
/// the list, such as `internal`, counts too.
fn is_public(name: &str) -> bool {
    psl::suffix_str(name).is_none_or(|suffix| suffix == name)
}

impl HostPattern {
    /// Creates a pattern that matches one host on every port.
    pub fn exact(host: HostName) -> Self {
        Self { below: false, host, port: None }
    }

    /// Returns true when the pattern matches this host on at least one port.
    pub fn matches_host(&self, host: &HostName) -> bool {
        if !self.below {
            return *host == self.host;
        }
        let mut labels = host.labels();
        self.host.labels().all(|own| labels.next() == Some(own)) && labels.next().is_some()
    }

    /// Returns true when the pattern matches this host and port.
    pub fn matches(&self, asked: &HostPort) -> bool {
        self.port.is_none_or(|port| port == asked.port) && self.matches_host(&asked.host)
    }

    /// Returns true when the pattern matches everything that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        let ports = self.port.is_none() || self.port == other.port;
        let hosts = match (self.below, other.below) {
            (false, true) => false,
            (true, true) => self.host == other.host || self.matches_host(&other.host),
            (_, false) => self.matches_host(&other.host),
        };
        ports && hosts
    }

    /// Returns the host if the pattern matches only one.
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
