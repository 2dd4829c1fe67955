//! The only parser of host names. It accepts a name only if every program reads it in the same way: the allow list, the
//! resolver and the server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use sandbox_protocol::Hint;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longest DNS name, without the trailing dot.
const LONGEST_NAME: usize = 253;
/// Longest label of a DNS name.
const LONGEST_LABEL: usize = 63;

/// A host name in lower case, or an IP address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HostName {
    /// A DNS name, without a trailing dot.
    Dns(String),
    /// An address. An IPv4-mapped IPv6 address is stored as IPv4.
    Ip(IpAddr),
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// The host.
    pub host: HostName,
    /// The port.
    pub port: u16,
}

/// Reason why a text is not a valid host. Invalid names are never corrected, because programs correct them differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HostError {
    /// The name is empty.
    #[error("is empty")]
    Empty,
    /// The name is too long.
    #[error("is longer than {LONGEST_NAME} characters")]
    TooLong,
    /// There is a user name, as in `user@host`.
    #[error("contains a user name")]
    UserInfo,
    /// There is a trailing dot, as in `example.com.`.
    #[error("ends with a dot")]
    TrailingDot,
    /// The name is not ASCII, and could look like another name.
    #[error("contains non-ASCII characters; write its `xn--` form")]
    NotAscii,
    /// There is a character that host names cannot contain, such as a NUL, line break, space or slash.
    #[error("contains a character that host names cannot have")]
    Character,
    /// A label is empty, too long, or starts or ends with a hyphen.
    #[error("has an invalid label")]
    Label,
    /// The address has a notation that programs read differently, such as `127.1`, `0x7f000001` or `0177.0.0.1`.
    #[error("is an IP address in an ambiguous notation; write it as four decimal numbers")]
    OddAddress,
    /// The text in brackets is not an IPv6 address, or has a zone.
    #[error("is not a valid IPv6 address")]
    Ipv6,
    /// The port is missing or invalid.
    #[error("has no valid port")]
    Port,
}

impl Hint for HostError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::UserInfo => "remove everything up to the `@`",
            Self::TrailingDot => "remove the trailing dot",
            Self::Label => "labels have 1 to 63 characters and do not begin or end with `-`",
            Self::Port => "a port is a number from 1 to 65535",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

impl FromStr for HostName {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        if let Some(rest) = text.strip_prefix('[') {
            let inner = rest.strip_suffix(']').ok_or(HostError::Ipv6)?;
            return inner.parse::<Ipv6Addr>().map(ipv6).map_err(|_| HostError::Ipv6);
        }
        if text.contains(':') {
            return text.parse::<Ipv6Addr>().map(ipv6).map_err(|_| odd_colon(text));
        }
        name(text)
    }
}

fn ipv6(address: Ipv6Addr) -> HostName {
    HostName::Ip(IpAddr::V6(address).to_canonical())
}

/// Returns the error for a text with a colon that is not an IPv6 address: it has a user name, or a port.
fn odd_colon(text: &str) -> HostError {
    if text.contains('@') { HostError::UserInfo } else { HostError::Character }
}

fn name(text: &str) -> Result<HostName, HostError> {
    check_characters(text)?;
    if text.ends_with('.') {
        return Err(HostError::TrailingDot);
    }
    if text.len() > LONGEST_NAME {
        return Err(HostError::TooLong);
    }
    if !text.split('.').all(is_label) {
        return Err(HostError::Label);
    }
    // If the last label is a number, programs take the name for an address, and differ in how they read it.
    let last = text.rsplit('.').next().unwrap_or(text);
    if is_number(last) {
        let address = text.parse::<Ipv4Addr>().map_err(|_| HostError::OddAddress)?;
        return Ok(HostName::Ip(address.into()));
    }
    Ok(HostName::Dns(text.to_ascii_lowercase()))
}

fn check_characters(text: &str) -> Result<(), HostError> {
    match text {
        "" => Err(HostError::Empty),
        _ if text.contains('@') => Err(HostError::UserInfo),
        _ if !text.is_ascii() => Err(HostError::NotAscii),
        _ if text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')) =>
        {
            Ok(())
        }
        _ => Err(HostError::Character),
    }
}

fn is_label(label: &str) -> bool {
    (1..=LONGEST_LABEL).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
}

/// Returns true for decimal, octal and hexadecimal numbers, which `inet_aton(3)` accepts.
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl HostName {
    /// Returns the labels of a name, last one first. Returns none for an address.
    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        let name = if let Self::Dns(name) = self { name.as_str() } else { "" };
        name.rsplit('.').filter(|label| !label.is_empty())
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(address)) => address.fmt(f),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl TryFrom<String> for HostName {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        text.parse()
    }
}

impl From<HostName> for String {
    fn from(host: HostName) -> Self {
        host.to_string()
    }
}

/// Parses a port: digits only, without sign, space or leading zero.
pub(super) fn port(text: &str) -> Result<u16, HostError> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain).ok_or(HostError::Port)
}

/// Splits a text into host and port. An IPv6 address must be in brackets.
pub(super) fn split(text: &str) -> (&str, Option<&str>) {
    let after = text.rfind(']').map_or(0, |bracket| bracket + 1);
    match text[after..].rfind(':') {
        Some(colon) => (&text[..after + colon], Some(&text[after + colon + 1..])),
        None => (text, None),
    }
}

impl HostPort {
    /// Parses `HOST:PORT`, or `HOST` with the default port of its scheme.
    pub fn with_default(text: &str, default: u16) -> Result<Self, HostError> {
        match split(text) {
            (host, Some(digits)) => Self::of(host, port(digits)?),
            (host, None) => Self::of(host, default),
        }
    }

    fn of(host: &str, port: u16) -> Result<Self, HostError> {
        // Another parser would read `::1` as the host `:` and port 1.
        if host.contains(':') && !host.starts_with('[') {
            return Err(odd_colon(host));
        }
        Ok(Self { host: host.parse()?, port })
    }
}

impl FromStr for HostPort {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        match split(text) {
            (host, Some(digits)) => Self::of(host, port(digits)?),
            _ => Err(HostError::Port),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
