//! API keys: how they are held, resolved and attached to requests.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use hyper::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::Zeroizing;

use sandbox_policy::catalog::provider::KeyHeader;

use crate::base64_secret;
use crate::scrub::Pattern;

/// A key. Zeroed on drop and never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Returns the text, for the one header that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Reference to a key, as it was written. A [`Source`] interprets it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretRef(pub serde_json::Value);

/// A resolved key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The key.
    pub value: Secret,
    /// Headers that belong to the key, such as the account of a login.
    pub headers: Vec<(String, String)>,
    /// Time after which the key must be resolved again.
    pub expires: Option<SystemTime>,
}

/// Failure to resolve a key.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct SourceError {
    /// Message. Never contains the key.
    pub message: String,
    /// Hint.
    pub hint: String,
}

/// Resolver of references. Called on a thread that may block.
pub trait Source: fmt::Debug + Send + Sync {
    /// Checks the form of a reference when a session is registered.
    fn check(&self, reference: &SecretRef) -> Result<(), SourceError>;

    /// Resolves the key.
    fn resolve(&self, reference: &SecretRef) -> Result<Resolved, SourceError>;
}

/// Source of a proxy that accepts keys only as part of a registration.
#[derive(Debug)]
pub struct NoSource;

impl Source for NoSource {
    fn check(&self, _: &SecretRef) -> Result<(), SourceError> {
        Err(no_source())
    }

    fn resolve(&self, _: &SecretRef) -> Result<Resolved, SourceError> {
        Err(no_source())
    }
}

fn no_source() -> SourceError {
    SourceError {
        message: "this proxy cannot look up secrets".into(),
        hint: "send the key itself as `api_key`".into(),
    }
}

/// Place in a request where a provider expects the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Placement {
    /// A header. `{}` in the format is replaced by the key.
    Header {
        /// Header name.
        name: String,
        /// Header value.
        #[serde(default = "bare_format")]
        format: String,
    },
    /// A query parameter.
    Query {
        /// Parameter name.
        name: String,
    },
    /// Basic authentication with the key as password.
    Basic {
        /// User name.
        user: String,
    },
    /// No key.
    None,
}

impl From<KeyHeader> for Placement {
    fn from(key: KeyHeader) -> Self {
        match key {
            KeyHeader::None => Self::None,
            KeyHeader::Header { name, format } => {
                Self::Header { name: name.into(), format: format.into() }
            }
        }
    }
}

fn bare_format() -> String {
    "{}".into()
}

/// Invalid placement.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlacementError {
    /// The header name is invalid or reserved.
    #[error("cannot send a key in the header `{0}`")]
    Name(String),
    /// The format does not contain the key exactly once.
    #[error("invalid format `{0}`: it needs exactly one `{{}}` for the key")]
    Format(String),
    /// The parameter name is invalid.
    #[error("invalid query parameter name `{0}`")]
    Parameter(String),
    /// The user name contains the separator of basic authentication.
    #[error("the user name must not contain `:`")]
    User,
}

impl Placement {
    /// Checks that the placement is usable.
    pub fn check(&self) -> Result<(), PlacementError> {
        match self {
            Self::Header { name, format } => {
                HeaderName::from_bytes(name.as_bytes())
                    .ok()
                    .filter(|name| !crate::headers::is_connection_bound(name))
                    .ok_or_else(|| PlacementError::Name(name.clone()))?;
                let once = format.matches("{}").count() == 1;
                let valid = HeaderValue::from_str(format).is_ok();
                if once && valid { Ok(()) } else { Err(PlacementError::Format(format.clone())) }
            }
            Self::Query { name } => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                if !name.is_empty() && name.bytes().all(plain) {
                    Ok(())
                } else {
                    Err(PlacementError::Parameter(name.clone()))
                }
            }
            Self::Basic { user } if user.contains(':') => Err(PlacementError::User),
            Self::Basic { .. } | Self::None => Ok(()),
        }
    }
}

/// A key in the form in which it is sent, with the patterns to scrub from responses.
#[derive(Clone)]
pub(crate) struct PlacedKey {
    /// Header that carries the key.
    pub header: Option<(HeaderName, HeaderValue)>,
    /// Query parameter that carries the key, escaped.
    pub query: Option<Zeroizing<String>>,
    /// Headers that belong to the key.
    pub extra: Vec<(HeaderName, HeaderValue)>,
    /// Texts to overwrite in responses.
    pub scrubbed: Arc<Vec<Pattern>>,
}

/// Shorter texts occur in responses by chance.
const SHORTEST_SCRUBBED: usize = 8;

impl fmt::Debug for PlacedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl PlacedKey {
    /// Builds the header or parameter for a key. Returns `None` when the key is not a valid header value.
    pub(crate) fn new(placement: &Placement, key: &Resolved) -> Option<Self> {
        let (text, mut placed) = (key.value.expose(), Self::nothing());
        placed.scrub(text);
        match placement {
            Placement::Header { name, format } => {
                let value = Zeroizing::new(format.replacen("{}", text, 1));
                placed.header =
                    Some((HeaderName::from_bytes(name.as_bytes()).ok()?, sensitive(&value)?));
            }
            Placement::Query { name } => {
                let value = escape(text);
                placed.scrub(&value);
                placed.query = Some(Zeroizing::new(format!("{name}={}", *value)));
            }
            Placement::Basic { user } => {
                let encoded =
                    base64_secret::encode(Zeroizing::new(format!("{user}:{text}")).as_bytes());
                placed.scrub(&encoded);
                let value = Zeroizing::new(format!("Basic {}", *encoded));
                placed.header = Some((hyper::header::AUTHORIZATION, sensitive(&value)?));
            }
            Placement::None => {}
        }
        for (name, value) in &key.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            placed.extra.push((name, HeaderValue::from_str(value).ok()?));
        }
        Some(placed)
    }

    fn nothing() -> Self {
        Self { header: None, query: None, extra: Vec::new(), scrubbed: Arc::default() }
    }

    fn scrub(&mut self, text: &str) {
        let known = self.scrubbed.iter().any(|known| known.text() == text.as_bytes());
        if text.len() >= SHORTEST_SCRUBBED && !known {
            Arc::make_mut(&mut self.scrubbed).push(Pattern::new(text.as_bytes()));
        }
    }
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Percent-encodes everything except the unreserved characters of RFC 3986.
fn escape(text: &str) -> Zeroizing<String> {
    use std::fmt::Write as _;
    let mut escaped = Zeroizing::new(String::with_capacity(text.len()));
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Resolved {
        Resolved { value: Secret::from(text.to_owned()), headers: Vec::new(), expires: None }
    }

    #[test]
    fn key_is_placed_where_the_provider_expects_it() {
        let header = |placement: &Placement| {
            let placed = PlacedKey::new(placement, &key("sk-12345678")).unwrap();
            placed.header.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        };
        let named = |name: &str, format: &str| Placement::Header {
            name: name.into(),
            format: format.into(),
        };
        for (placement, expected) in [
            (named("X-Api-Key", "{}"), Some("x-api-key: sk-12345678")),
            (named("authorization", "Bearer {}"), Some("authorization: Bearer sk-12345678")),
            (
                Placement::Basic { user: "git".into() },
                Some("authorization: Basic Z2l0OnNrLTEyMzQ1Njc4"),
            ),
            (Placement::None, None),
        ] {
            assert_eq!(header(&placement).as_deref(), expected);
        }
        let query =
            PlacedKey::new(&Placement::Query { name: "key".into() }, &key("a/b+c d=12")).unwrap();
        assert_eq!(query.query.unwrap().as_str(), "key=a%2Fb%2Bc%20d%3D12");
    }

    #[test]
    fn key_is_refused_when_it_would_break_the_header() {
        let placement = Placement::Header { name: "x-api-key".into(), format: "{}".into() };
        assert!(PlacedKey::new(&placement, &key("a\r\nx: y")).is_none());
        assert!(PlacedKey::new(&placement, &key("plain")).is_some());
    }

    #[test]
    fn placement_is_refused_when_the_key_would_not_arrive() {
        let header = |name: &str, format: &str| {
            Placement::Header { name: name.into(), format: format.into() }.check()
        };
        assert_eq!(header("x-key", "Token {}"), Ok(()));
        for (name, format) in [
            ("a b", "{}"),
            ("", "{}"),
            ("connection", "{}"),
            ("host", "{}"),
            ("x-key", "Token"),
            ("x-key", "{} {}"),
            ("x-key", "{}\n"),
        ] {
            assert!(header(name, format).is_err(), "{name} {format}");
        }
        assert!(Placement::Query { name: "a&b".into() }.check().is_err());
        assert!(Placement::Basic { user: "a:b".into() }.check().is_err());
    }

    #[test]
    fn secrets_are_never_printed() {
        let placed =
            PlacedKey::new(&Placement::Basic { user: "u".into() }, &key("hidden-value")).unwrap();
        assert_eq!(format!("{:?} {placed:?}", key("hidden-value").value), "[secret] [secret]");
        assert!(format!("{:?}", placed.header).contains("Sensitive"));
    }
}
