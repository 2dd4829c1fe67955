//! Authentication of requests by session token. SDKs put keys in different places, and all of them are searched.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, SEC_WEBSOCKET_PROTOCOL};
use zeroize::Zeroizing;

use crate::base64_secret;
use crate::error::Refusal;
use crate::headers;
use crate::query;
use crate::session::{ProxySession, Registry};

/// Owner of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every client whose token is not bound to a sandbox.
    Open,
    /// One sandbox.
    Sandbox(String),
}

impl Scope {
    /// Returns true when a session is valid here. A session that came with a sandbox works only in that sandbox.
    fn admits(&self, session: &ProxySession) -> bool {
        match self {
            Self::Open => !session.bound,
            Self::Sandbox(id) => session.sandbox.as_deref() == Some(id),
        }
    }
}

/// An authenticated session and the token that identified it.
pub(super) struct Known {
    pub session: Arc<ProxySession>,
    pub token: Zeroizing<String>,
}

/// Prefix with which OpenAI's browser SDK sends a key as a WebSocket subprotocol.
const IN_PROTOCOL: &str = "openai-insecure-api-key.";

/// Returns the session of a request.
pub(super) fn authenticate(
    registry: &Registry,
    scope: &Scope,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Known, Refusal> {
    let mut any = false;
    for candidate in candidates(headers, query) {
        any = true;
        if let Some(session) = registry.find(&candidate).filter(|session| scope.admits(session)) {
            let bare = candidate.strip_prefix("session-").unwrap_or(&candidate);
            return Ok(Known { session, token: Zeroizing::new(bare.to_owned()) });
        }
    }
    Err(if any { unknown(scope) } else { missing() })
}

/// Returns all values that may be a token, the most common places first.
fn candidates<'h>(
    headers: &'h HeaderMap,
    sent: Option<&'h str>,
) -> impl Iterator<Item = Zeroizing<String>> + 'h {
    let first = [AUTHORIZATION, HeaderName::from_static("x-api-key")];
    let usual = first
        .into_iter()
        .flat_map(|name| headers.get_all(name))
        .filter_map(|value| value.to_str().ok());
    let others = headers
        .iter()
        .filter(|(name, _)| *name != AUTHORIZATION && *name != "x-api-key")
        .filter_map(|(name, value)| Some((name, value.to_str().ok()?)))
        .filter(|(name, value)| headers::is_credential(name) || value.starts_with("session-"))
        .map(|(_, value)| value);
    let protocols = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|item| item.trim().strip_prefix(IN_PROTOCOL));
    let parameters = sent
        .into_iter()
        .flat_map(|sent| sent.split('&'))
        .filter(|pair| is_key_parameter(pair, None))
        .flat_map(query::values)
        .map(Zeroizing::new);
    usual.chain(others).flat_map(credential).chain(protocols.map(owned)).chain(parameters)
}

/// Returns true for a query parameter that carries a key. It is never forwarded. `own` is the parameter in which the
/// session's real key is sent.
pub(super) fn is_key_parameter(pair: &str, own: Option<&str>) -> bool {
    query::is_credential(pair, own)
        || query::values(pair).any(|value| value.starts_with("session-"))
}

fn owned(text: &str) -> Zeroizing<String> {
    Zeroizing::new(text.to_owned())
}

/// Returns the possible tokens in a header: a bare value, after a scheme, or the user or password of basic
/// authentication.
fn credential(value: &str) -> Vec<Zeroizing<String>> {
    match value.trim().split_once(' ') {
        Some((scheme, encoded)) if scheme.eq_ignore_ascii_case("basic") => {
            let decoded = base64_secret::decode(encoded.trim());
            let Some(text) = decoded.as_ref().and_then(|bytes| std::str::from_utf8(bytes).ok())
            else {
                return Vec::new();
            };
            let (user, password) = text.split_once(':').unwrap_or((text, ""));
            vec![owned(password), owned(user)]
        }
        Some((_, text)) => vec![owned(text.trim())],
        None => vec![owned(value.trim())],
    }
}

fn missing() -> Refusal {
    let hint = "send the session's token as `Authorization: Bearer` or `x-api-key`";
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "token_missing",
        "the request contains no session token",
        hint,
    )
}

/// Returns one message for unknown, expired and foreign tokens, so that a client cannot distinguish them.
fn unknown(scope: &Scope) -> Refusal {
    let hint = match scope {
        Scope::Sandbox(_) => "use the token from this sandbox's environment",
        Scope::Open => {
            "register the session first (a sandbox's session works only inside that sandbox)"
        }
    };
    Refusal::new(StatusCode::UNAUTHORIZED, "token_unknown", "unknown session token", hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn token_is_found_wherever_clients_put_keys() {
        const TOKEN: &str = "session-0123";
        for (name, value, query) in [
            ("authorization", "Bearer session-0123", None),
            ("authorization", "bearer session-0123", None),
            ("authorization", "token session-0123", None),
            ("authorization", "Basic eDpzZXNzaW9uLTAxMjM=", None),
            ("authorization", "Basic c2Vzc2lvbi0wMTIzOg==", None),
            ("x-api-key", "session-0123", None),
            ("x-goog-api-key", "session-0123", None),
            ("x-own-header", "session-0123", None),
            ("sec-websocket-protocol", "realtime, openai-insecure-api-key.session-0123", None),
            ("accept", "*/*", Some("alt=sse&key=session-0123")),
            ("accept", "*/*", Some("whatever=session-0123")),
            ("accept", "*/*", Some("%6Bey=session%2D0123")),
            ("accept", "*/*", Some("API_KEY=session-0123")),
            ("accept", "*/*", Some("what%65ver=%73ession-0123")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_static(value),
            );
            let found: Vec<_> = candidates(&headers, query).collect();
            assert!(found.iter().any(|found| found.as_str() == TOKEN), "{name}: {value}");
        }
        assert_eq!(candidates(&HeaderMap::new(), Some("a=b")).count(), 0);
    }
}
