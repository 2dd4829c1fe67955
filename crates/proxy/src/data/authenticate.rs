//! Whose request this is: the token is looked for wherever SDKs put a key.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, SEC_WEBSOCKET_PROTOCOL};
use zeroize::Zeroizing;

use super::door::{Door, Scope};
use crate::error::Refusal;
use crate::headers;
use crate::session::{Registry, Session};

/// A session, and the token it was named by.
pub(super) struct Known {
    pub session: Arc<Session>,
    pub token: Zeroizing<String>,
}

/// Parameters that clients put keys into.
const PARAMETERS: [&str; 5] = ["key", "api_key", "api-key", "access_token", "token"];
/// How OpenAI's SDK in a browser hides a key in the name of a protocol.
const IN_PROTOCOL: &str = "openai-insecure-api-key.";

/// Finds the session of a request.
pub(super) fn authenticate(
    registry: &Registry,
    door: &Door,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Known, Refusal> {
    let mut any = false;
    for candidate in candidates(headers, query) {
        any = true;
        if let Some(session) = registry.find(&candidate).filter(|session| door.admits(session)) {
            let bare = candidate.strip_prefix("session-").unwrap_or(&candidate);
            return Ok(Known { session, token: Zeroizing::new(bare.to_owned()) });
        }
    }
    Err(if any { unknown(door) } else { missing() })
}

/// Everything that may be a token, the usual places first.
fn candidates<'h>(
    headers: &'h HeaderMap,
    query: Option<&'h str>,
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
    let parameters = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter_map(|pair| pair.split_once('='))
        .filter(|(name, value)| is_key_parameter(name, value))
        .map(|(_, value)| value);
    usual.chain(others).flat_map(credential).chain(protocols.chain(parameters).map(owned))
}

/// Whether a parameter is there for a key. It is never forwarded.
pub(super) fn is_key_parameter(name: &str, value: &str) -> bool {
    PARAMETERS.contains(&name) || value.starts_with("session-")
}

fn owned(text: &str) -> Zeroizing<String> {
    Zeroizing::new(text.to_owned())
}

/// The token in a header: alone, after a scheme, or as user or password of basic authentication.
fn credential(value: &str) -> Vec<Zeroizing<String>> {
    match value.trim().split_once(' ') {
        Some((scheme, encoded)) if scheme.eq_ignore_ascii_case("basic") => {
            let Some(decoded) = base64(encoded.trim()) else { return Vec::new() };
            let (user, password) = decoded.split_once(':').unwrap_or((&decoded, ""));
            vec![owned(password), owned(user)]
        }
        Some((_, text)) => vec![owned(text.trim())],
        None => vec![owned(value.trim())],
    }
}

fn base64(text: &str) -> Option<Zeroizing<String>> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for place in 0..4 {
            bits = bits << 6 | u32::from(four.get(place).map_or(Some(0), |byte| digit(*byte))?);
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    String::from_utf8(bytes.to_vec()).ok().map(Zeroizing::new)
}

fn missing() -> Refusal {
    let hint = "send the session's token as `Authorization: Bearer` or `x-api-key`";
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "token_missing",
        "the request has no session token",
        hint,
    )
}

/// The same words for a token that never was, that is over, and that belongs to somebody else.
fn unknown(door: &Door) -> Refusal {
    let hint = match door.scope() {
        Scope::Sandbox(_) => "use the token that this sandbox was given in its environment",
        Scope::Open => {
            "register the session first; one that came with a sandbox works only inside it"
        }
    };
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "token_unknown",
        "the session token is not known here",
        hint,
    )
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

    #[test]
    fn base64_is_read_or_refused() {
        for (encoded, plain) in [
            ("Zm9v", Some("foo")),
            ("Zm8=", Some("fo")),
            ("Zg", Some("f")),
            ("Z", Some("")),
            ("Zm9v!", None),
        ] {
            assert_eq!(base64(encoded).as_ref().map(|text| text.as_str()), plain, "{encoded}");
        }
    }
}
