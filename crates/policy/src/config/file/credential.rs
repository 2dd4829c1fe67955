//! Values in a secret. Each is checked when it is parsed, so that the proxy cannot fail on it later.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Deserializer;
use serde::{Deserialize, Serialize};

use super::word::{Invalid, text, word};
use crate::text::shown;

/// The server that a secret is sent to: `https://host` or `http://host:port`, with an optional path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UpstreamUrl(String);

/// A line of `routes`: `METHOD /path`, `/path`, or `*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RouteText(String);

/// The name of a header that carries a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeaderText(String);

/// The value of a header, with one `{}` as the placeholder for the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FormatText(String);

/// The name of a query parameter that carries a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueryText(String);

/// A user of basic authentication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BasicUser(String);

/// A line of `server_tools`: the type of a provider's tool, or `*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolText(String);

/// A line of `models`: a model name, in which `*` matches any text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelText(String);

/// The name of a stored secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredName(String);

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArgumentText(String);

word!(UpstreamUrl RouteText HeaderText FormatText QueryText BasicUser ToolText ModelText StoredName ArgumentText);

/// Connection-specific headers (RFC 9110, 7.6.1), and headers that the proxy sets.
const CONNECTION_BOUND: [&str; 9] = [
    "connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
    "content-length",
    "keep-alive",
    "proxy-connection",
];

impl UpstreamUrl {
    fn check(url: &str) -> Result<(), Invalid> {
        let wrong = |why: &str| {
            // Text with an `@` may contain a password, so the message does not repeat it.
            let text = if url.contains('@') { String::new() } else { format!(" {}", shown(url)) };
            Invalid::new(format!("invalid server URL{text}: {why}"))
                .hint("write `https://host` or `http://host:port`, optionally with a path")
        };
        if url.contains(['?', '#']) {
            return Err(wrong("it contains a `?` or a `#`"));
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err(wrong("only http and https are supported"));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(wrong("it contains a user or a password")
                .hint("remove them; the proxy sends the secret"));
        }
        if !is_authority(authority) {
            return Err(wrong("invalid host or port"));
        }
        if is_base(path) { Ok(()) } else { Err(wrong("invalid path")) }
    }
}

/// Returns true for `host`, `host:port`, `[address]` and `[address]:port`.
fn is_authority(text: &str) -> bool {
    let (is_host, rest) = if let Some(inner) = text.strip_prefix('[') {
        let Some((address, rest)) = inner.split_once(']') else { return false };
        (address.parse::<std::net::Ipv6Addr>().is_ok(), rest)
    } else {
        let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (!host.is_empty() && host.bytes().all(plain), rest)
    };
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    is_host && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

/// Returns true for a path prefix that every server interprets in the same way.
fn is_base(path: &str) -> bool {
    let bytes = path.as_bytes();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'%' {
            let digits = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
            let digits = digits.filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let decoded = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok());
            if decoded.is_none_or(|byte| byte.is_ascii_control() || b"%./\\;".contains(&byte)) {
                return false;
            }
            at += 3;
        } else if plain(byte) {
            at += 1;
        } else {
            return false;
        }
    }
    let name = |segment: &str| segment.split(';').next().unwrap_or(segment).to_owned();
    path.split('/').all(|segment| !matches!(name(segment).as_str(), "." | ".."))
}

impl RouteText {
    fn check(text: &str) -> Result<(), Invalid> {
        let wrong = || {
            Invalid::new(format!("invalid route {}", shown(text)))
                .hint("write `METHOD /path`, `/path`, or `*` for everything")
        };
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (method, path) = match words[..] {
            ["*"] => return Ok(()),
            [path] => ("*", path),
            [method, path] => (method, path),
            _ => return Err(wrong()),
        };
        let is_method = method == "*" || method.bytes().all(|byte| byte.is_ascii_uppercase());
        let glob = globset::GlobBuilder::new(path).literal_separator(true).build();
        if path.starts_with('/') && is_method && glob.is_ok() { Ok(()) } else { Err(wrong()) }
    }
}

impl HeaderText {
    fn check(name: &str) -> Result<(), Invalid> {
        // A token: RFC 9110, 5.6.2.
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || name.len() > 256 || !name.bytes().all(token) {
            return Err(Invalid::new(format!("invalid header name {}", shown(name)))
                .hint("write a name such as `x-api-key`"));
        }
        if CONNECTION_BOUND.iter().any(|bound| name.eq_ignore_ascii_case(bound)) {
            return Err(Invalid::new(format!(
                "the header {} belongs to the connection and cannot carry a secret",
                shown(name)
            ))
            .hint("write a name such as `x-api-key`"));
        }
        Ok(())
    }
}

impl FormatText {
    fn check(text: &str) -> Result<(), Invalid> {
        // Characters of a field value: RFC 9110, 5.5.
        let visible = |byte: u8| byte == b'\t' || byte >= 0x20 && byte != 0x7f;
        if text.matches("{}").count() == 1 && text.bytes().all(visible) {
            return Ok(());
        }
        Err(Invalid::new(format!("invalid format {}", shown(text)))
            .hint("write `{}` exactly once as the placeholder for the secret, such as `Bearer {}`"))
    }
}

impl QueryText {
    fn check(name: &str) -> Result<(), Invalid> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !name.is_empty() && name.bytes().all(plain) {
            return Ok(());
        }
        Err(Invalid::new(format!("invalid query parameter name {}", shown(name)))
            .hint("use letters, digits, `-`, `_` and `.`"))
    }
}

impl BasicUser {
    fn check(name: &str) -> Result<(), Invalid> {
        if name.contains(':') {
            return Err(Invalid::new(format!("invalid user {}: it contains a `:`", shown(name)))
                .hint("write only the name; the secret is the password"));
        }
        if name.contains(char::is_control) {
            return Err(Invalid::new(format!("invalid user {}", shown(name))));
        }
        Ok(())
    }
}

impl ToolText {
    fn check(name: &str) -> Result<(), Invalid> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name == "*" || !name.is_empty() && name.bytes().all(plain) {
            return Ok(());
        }
        Err(Invalid::new(format!("invalid tool type {}", shown(name)))
            .hint("write types such as `web_search`, or `*` for everything"))
    }
}

impl ModelText {
    fn check(name: &str) -> Result<(), Invalid> {
        if name.trim().is_empty() {
            return Err(Invalid::new("the model name is empty"));
        }
        if name.contains(char::is_control) {
            return Err(Invalid::new(format!("invalid model name {}", shown(name))));
        }
        Ok(())
    }
}

impl StoredName {
    fn check(name: &str) -> Result<(), Invalid> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if begins && name.len() <= 64 && name.bytes().all(plain) {
            return Ok(());
        }
        Err(Invalid::new(format!("invalid secret name {}", shown(name))).hint(
            "use up to 64 letters, digits, `-`, `_` and `.`, starting with a letter or digit",
        ))
    }
}

impl ArgumentText {
    fn check(word: &str) -> Result<(), Invalid> {
        if word.contains('\0') {
            return Err(Invalid::new(format!("the word {} contains a NUL byte", shown(word))));
        }
        Ok(())
    }
}

text!(UpstreamUrl RouteText HeaderText FormatText QueryText BasicUser ToolText ModelText StoredName ArgumentText);
