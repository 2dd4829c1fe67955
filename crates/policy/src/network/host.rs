//! The one parser of host names. What it takes has one meaning for everybody: for the list of
//! allowed hosts, for the resolver and for the server that is reached in the end.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use sandbox_protocol::Hint;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest name of the DNS, without the dot at its end.
const LONGEST_NAME: usize = 253;
/// The longest part of one.
const LONGEST_LABEL: usize = 63;

/// A host, by its name in lower case or by its address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HostName {
    /// A name of the DNS, without a dot at its end.
    Dns(String),
    /// An address. One of IPv4 that is written as IPv6 is the one of IPv4.
    Ip(IpAddr),
}

/// A host and a port on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// The host.
    pub host: HostName,
    /// The port.
    pub port: u16,
}

/// Why a text names no host. Nothing is repaired: what one program repairs, another reads differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HostError {
    /// Nothing is there.
    #[error("is empty")]
    Empty,
    /// Longer than a name can be.
    #[error("is longer than any host's name")]
    TooLong,
    /// `user@host`.
    #[error("has a user in it")]
    UserInfo,
    /// `example.com.`
    #[error("ends with a dot")]
    TrailingDot,
    /// Not ASCII: what it looks like and what it is are two things.
    #[error("has letters beyond ASCII; write its `xn--` form")]
    NotAscii,
    /// NUL, line ends, blanks, slashes and the like.
    #[error("holds a character that no host's name can have")]
    Character,
    /// Two dots, a hyphen at an end, or a part that is too long.
    #[error("has a part that no host's name can have")]
    Label,
    /// `127.1`, `0x7f000001`, `2130706433`, `0177.0.0.1`: spellings that programs read differently.
    #[error("is an address in an unusual spelling; write it as four decimal numbers")]
    OddAddress,
    /// Something in brackets that is no address of IPv6, or one with a zone.
    #[error("is no address of IPv6")]
    Ipv6,
    /// No port, or none that there is.
    #[error("has no valid port")]
    Port,
}

impl Hint for HostError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::UserInfo => "leave out what stands before `@`",
            Self::TrailingDot => "leave out the dot at the end",
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

/// A colon stands in addresses, before ports and in user names.
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
    // Where the last part is a number, programs take the whole for an address, each in its own way.
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

/// Decimal, octal or hexadecimal, as in `inet_aton(3)`.
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl HostName {
    /// The parts of a name, the last one first; nothing for an address.
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

/// A port as it is written after a colon: digits, no sign, no blank, no zero in front.
pub(super) fn port(text: &str) -> Result<u16, HostError> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain).ok_or(HostError::Port)
}

/// The host, and what stands behind its colon. An address of IPv6 has to stand in brackets.
pub(super) fn split(text: &str) -> (&str, Option<&str>) {
    let after = text.rfind(']').map_or(0, |bracket| bracket + 1);
    match text[after..].rfind(':') {
        Some(colon) => (&text[..after + colon], Some(&text[after + colon + 1..])),
        None => (text, None),
    }
}

impl HostPort {
    /// `HOST:PORT`, or `HOST` with the port that its scheme has.
    pub fn with_default(text: &str, default: u16) -> Result<Self, HostError> {
        match split(text) {
            (host, Some(digits)) => Self::of(host, port(digits)?),
            (host, None) => Self::of(host, default),
        }
    }

    fn of(host: &str, port: u16) -> Result<Self, HostError> {
        // `::1` alone would be read as the host `:` and a port by somebody else.
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
