//! Keys: how they are held, where they come from, and how a provider wants to be shown one.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use hyper::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::Zeroizing;

use sandbox_policy::catalog::provider::KeyHeader;

use crate::letters;
use crate::scrub::Pattern;

/// A key. It is overwritten when it is let go of, and nothing prints it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text itself, for the one header that needs it.
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

/// Where a key is to be had, as it was written. What it means is up to a [`Source`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretRef(pub serde_json::Value);

/// What a reference led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The key.
    pub value: Secret,
    /// Headers that belong to it, such as the account of a login.
    pub headers: Vec<(String, String)>,
    /// When it must be asked for again.
    pub expires: Option<SystemTime>,
}

/// Why there is no key.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct SourceError {
    /// What failed. Never with the key in it.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Turns references into keys. Called on a thread that may wait.
pub trait Source: fmt::Debug + Send + Sync {
    /// Whether a reference could mean something; asked when a session is registered.
    fn check(&self, reference: &SecretRef) -> Result<(), SourceError>;

    /// The key, now.
    fn resolve(&self, reference: &SecretRef) -> Result<Resolved, SourceError>;
}

/// A proxy that takes keys only from whoever registers a session.
#[derive(Debug)]
pub struct NoSource;

impl Source for NoSource {
    fn check(&self, _: &SecretRef) -> Result<(), SourceError> {
        Err(nowhere())
    }

    fn resolve(&self, _: &SecretRef) -> Result<Resolved, SourceError> {
        Err(nowhere())
    }
}

fn nowhere() -> SourceError {
    SourceError {
        message: "this proxy knows no place to take secrets from".into(),
        hint: "send the key itself as `api_key`".into(),
    }
}

/// Where in a request a provider looks for the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Placement {
    /// A header; `{}` in the format is the key.
    Header {
        /// Its name.
        name: String,
        /// What it says.
        #[serde(default = "bare_format")]
        format: String,
    },
    /// A parameter of the query.
    Query {
        /// Its name.
        name: String,
    },
    /// Basic authentication; the key is the password.
    Basic {
        /// The user.
        user: String,
    },
    /// No key is wanted.
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

/// Why a placement makes no sense.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlacementError {
    /// Not a name of a header.
    #[error("`{0}` is no name of a header that a key can be sent in")]
    Name(String),
    /// The key would not be sent.
    #[error("the format `{0}` has no `{{}}` where the key goes, or more than one")]
    Format(String),
    /// Not a name of a parameter.
    #[error("`{0}` is no name of a query parameter")]
    Parameter(String),
    /// Would end the user's name early.
    #[error("a user's name has no `:` in it")]
    User,
}

impl Placement {
    /// Whether it can be used at all.
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

/// A key in the form in which it is sent, and everything that must not come back.
#[derive(Clone)]
pub(crate) struct Shown {
    /// The one header that carries it.
    pub header: Option<(HeaderName, HeaderValue)>,
    /// The one parameter that carries it, escaped.
    pub query: Option<Zeroizing<String>>,
    /// Headers that belong to it.
    pub extra: Vec<(HeaderName, HeaderValue)>,
    /// Texts that are overwritten in answers.
    pub scrubbed: Arc<Vec<Pattern>>,
}

/// Shorter texts stand in answers by chance, and are no keys.
const SHORTEST_SCRUBBED: usize = 8;

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl Shown {
    /// Puts a key where it belongs. `None` when it cannot stand in a header.
    pub(crate) fn new(placement: &Placement, key: &Resolved) -> Option<Self> {
        let (text, mut shown) = (key.value.expose(), Self::nothing());
        shown.scrub(text);
        match placement {
            Placement::Header { name, format } => {
                let value = Zeroizing::new(format.replacen("{}", text, 1));
                shown.header =
                    Some((HeaderName::from_bytes(name.as_bytes()).ok()?, sensitive(&value)?));
            }
            Placement::Query { name } => {
                let value = escape(text);
                shown.scrub(&value);
                shown.query = Some(Zeroizing::new(format!("{name}={}", *value)));
            }
            Placement::Basic { user } => {
                let encoded = letters::encode(Zeroizing::new(format!("{user}:{text}")).as_bytes());
                shown.scrub(&encoded);
                let value = Zeroizing::new(format!("Basic {}", *encoded));
                shown.header = Some((hyper::header::AUTHORIZATION, sensitive(&value)?));
            }
            Placement::None => {}
        }
        for (name, value) in &key.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            shown.extra.push((name, HeaderValue::from_str(value).ok()?));
        }
        Some(shown)
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

/// For a query: everything but what RFC 3986 calls unreserved.
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
    fn key_stands_where_the_provider_looks_for_it() {
        let header = |placement: &Placement| {
            let shown = Shown::new(placement, &key("sk-12345678")).unwrap();
            shown.header.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
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
            Shown::new(&Placement::Query { name: "key".into() }, &key("a/b+c d=12")).unwrap();
        assert_eq!(query.query.unwrap().as_str(), "key=a%2Fb%2Bc%20d%3D12");
    }

    #[test]
    fn key_is_refused_when_it_would_break_the_header() {
        let placement = Placement::Header { name: "x-api-key".into(), format: "{}".into() };
        assert!(Shown::new(&placement, &key("a\r\nx: y")).is_none());
        assert!(Shown::new(&placement, &key("plain")).is_some());
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
        let shown =
            Shown::new(&Placement::Basic { user: "u".into() }, &key("hidden-value")).unwrap();
        assert_eq!(format!("{:?} {shown:?}", key("hidden-value").value), "[secret] [secret]");
        assert!(format!("{:?}", shown.header).contains("Sensitive"));
    }
}
