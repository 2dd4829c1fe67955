//! Header filters for both directions.
//!
//! A request keeps descriptive headers. All headers that could be a credential are removed by name, because a second
//! credential would let the sandbox choose the account. Also removed are hop-by-hop headers, headers for proxies, and
//! headers that make a server read a different method or path than the rules checked.

use hyper::Version;
use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};

use crate::scrub::Pattern;

/// Names of credential headers. [`CREDENTIAL_WORDS`] has words that may occur anywhere in a name.
const CREDENTIALS: &[&str] = &[
    "private-token",
    "job-token",
    "deploy-token",
    "ocp-apim-subscription-key",
    "x-subscription-token",
    "x-auth-key",
    "x-auth-email",
    "x-user-token",
    "x-vault-token",
    "x-amz-security-token",
    "x-gitlab-token",
    "x-github-token",
    "x-token",
    "token",
    "auth",
    "x-auth",
    "key",
    "x-key",
    "bearer",
    "x-bearer",
    "jwt",
    "x-jwt",
    "x-access-key",
    "x-csrf-token",
    "x-xsrf-token",
];

const CREDENTIAL_WORDS: &[&str] = &[
    "authorization",
    "authenticate",
    "authentication",
    "api-key",
    "apikey",
    "auth-token",
    "authtoken",
    "access-token",
    "accesstoken",
    "session-token",
    "security-token",
    "id-token",
    "subscription-key",
    "secret",
    "password",
    "credential",
    "cookie",
];

/// Common headers that need no search for words.
const HARMLESS: &[&str] = &[
    "host",
    "accept",
    "user-agent",
    "content-type",
    "content-length",
    "accept-encoding",
    "accept-language",
    "anthropic-version",
    "anthropic-beta",
    "connection",
];

/// Headers that override the host, method or path, or identify the client. Those of a WebSocket handshake are set again
/// later.
const MISLEADING: &[&str] = &[
    "forwarded",
    "via",
    "x-real-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-host",
    "x-original-url",
    "x-original-host",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "http2-settings",
    "expect",
    "alt-used",
];

/// Response headers that reveal the account or change a client's behaviour elsewhere.
const ANSWER_DROPPED: &[&str] = &[
    "alt-svc",
    "strict-transport-security",
    "openai-organization",
    "openai-project",
    "anthropic-organization-id",
    "public-key-pins",
    "clear-site-data",
    "refresh",
    "nel",
    "report-to",
    "reporting-endpoints",
];

/// Returns true for hop-by-hop headers (RFC 9110, 7.6.1) and headers that each sender sets.
pub(crate) fn is_connection_bound(name: &HeaderName) -> bool {
    [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, HOST, CONTENT_LENGTH].contains(name)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Returns true when a request header could be a credential.
pub fn is_credential(name: &HeaderName) -> bool {
    let name = name.as_str();
    if HARMLESS.contains(&name) || name.starts_with("x-stainless-") {
        return false;
    }
    let matches = |name: &str| {
        CREDENTIALS.contains(&name) || CREDENTIAL_WORDS.iter().any(|word| name.contains(word))
    };
    matches(name) || dashed(name).is_some_and(|name| matches(&name))
}

/// Returns a name as CGI reads it, if that differs: `x_auth_token` and `x.auth.token` become `x-auth-token`.
fn dashed(name: &str) -> Option<String> {
    let other = |letter: char| letter != '-' && !letter.is_ascii_alphanumeric();
    name.contains(other).then(|| name.replace(other, "-"))
}

fn is_for_proxies(name: &str) -> bool {
    const BEGINNINGS: [&str; 3] = ["proxy-", "x-forwarded-", "sec-websocket-"];
    let matches = |name: &str| {
        BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) || MISLEADING.contains(&name)
    };
    matches(name) || dashed(name).is_some_and(|name| matches(&name))
}

/// Returns the header names that `Connection` lists. They are hop-by-hop, too.
fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    words(headers, &CONNECTION).filter_map(|name| HeaderName::from_bytes(name).ok()).collect()
}

/// Returns the items of a list header. Values that are not valid text are split as well.
fn words<'h>(headers: &'h HeaderMap, list: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    let values = headers.get_all(list).into_iter().map(HeaderValue::as_bytes);
    values.flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

/// Removes the headers of a request that must not reach the server, and all that contain `token`, the session token.
pub fn strip_request(headers: &mut HeaderMap, token: &str) {
    let listed = nominated(headers);
    let carries_it = |value: &HeaderValue| {
        let found = || memchr::memmem::find(value.as_bytes(), token.as_bytes()).is_some();
        !token.is_empty() && value.len() >= token.len() && found()
    };
    retain(headers, |name, value| {
        let text = name.as_str();
        let dropped = (is_connection_bound(name) && *name != CONTENT_LENGTH)
            || *name == ACCEPT_ENCODING
            || is_credential(name)
            || is_for_proxies(text)
            || listed.contains(name)
            || carries_it(value);
        !dropped
    });
    // The response is scrubbed, which works on uncompressed data only.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Returns true when the client accepts trailers. In HTTP/1.1, `Connection` has to list `TE`, so that proxies without
/// support remove it (RFC 9110, 10.1.4).
pub(crate) fn wants_trailers(headers: &HeaderMap, version: Version) -> bool {
    let asked = words(headers, &TE).any(|word| word.eq_ignore_ascii_case(b"trailers"));
    asked && (version >= Version::HTTP_2 || nominated(headers).contains(&TE))
}

/// Removes the headers of a response that must not reach the client, and replaces values with the key. `Trailer` is
/// kept for forwarded names, because it announces trailers to HTTP/1.1 clients.
pub(crate) fn strip_answer(headers: &mut HeaderMap, secrets: &[Pattern]) {
    let listed = nominated(headers);
    let announced: Vec<HeaderName> = words(headers, &TRAILER)
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        .filter(|name| *name != CONTENT_LENGTH && answer_passes(name) && !listed.contains(name))
        .collect();
    retain(headers, |name, _| answer_passes(name) && !listed.contains(name));
    let announced: Vec<&str> = announced.iter().map(HeaderName::as_str).collect();
    if let Ok(names) = HeaderValue::from_str(&announced.join(", "))
        && !names.is_empty()
    {
        headers.insert(TRAILER, names);
    }
    scrub_values(headers, secrets);
}

/// Removes trailers that are not allowed as headers, and those that frame a body.
pub(crate) fn strip_trailers(trailers: &mut HeaderMap, secrets: &[Pattern]) {
    retain(trailers, |name, _| *name != CONTENT_LENGTH && answer_passes(name));
    scrub_values(trailers, secrets);
}

fn answer_passes(name: &HeaderName) -> bool {
    let text = name.as_str();
    let dropped = (is_connection_bound(name) && *name != CONTENT_LENGTH)
        || text.starts_with("set-cookie")
        || text.starts_with("proxy-")
        || ANSWER_DROPPED.contains(&text);
    !dropped
}

/// Replaces values that contain a secret.
fn scrub_values(headers: &mut HeaderMap, secrets: &[Pattern]) {
    for value in headers.values_mut() {
        if secrets.iter().any(|secret| secret.is_in(value.as_bytes())) {
            *value = HeaderValue::from_static("[scrubbed]");
        }
    }
}

/// Removes headers by name. Collects them first, because most messages have none.
fn retain(headers: &mut HeaderMap, keep: impl Fn(&HeaderName, &HeaderValue) -> bool) {
    let gone: Vec<HeaderName> = headers
        .iter()
        .filter(|(name, value)| !keep(name, value))
        .map(|(name, _)| name.clone())
        .collect();
    for name in gone {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        headers
    }

    #[test]
    fn request_keeps_descriptive_headers_and_loses_credentials() {
        const TOKEN: &str = "0123456789abcdef0123456789abcdef";
        for (name, passes) in [
            ("content-type", true),
            ("content-length", true),
            ("accept", true),
            ("user-agent", true),
            ("anthropic-version", true),
            ("anthropic-beta", true),
            ("openai-beta", true),
            ("idempotency-key", true),
            ("x-stainless-lang", true),
            ("traceparent", true),
            ("authorization", false),
            ("proxy-authorization", false),
            ("x-api-key", false),
            ("api-key", false),
            ("X-Goog-Api-Key", false),
            ("anthropic-api-key", false),
            ("x-auth-token", false),
            ("cookie", false),
            ("cookie2", false),
            ("x-amz-security-token", false),
            ("x-client-secret", false),
            ("x_api_key", false),
            ("X_Auth_Token", false),
            ("x.goog.api.key", false),
            ("access_token", false),
            ("private_token", false),
            ("x-auth", false),
            ("key", false),
            ("author", true),
            ("x-request-key-id", true),
            ("forwarded", false),
            ("x-forwarded-for", false),
            ("x-forwarded-host", false),
            ("x-original-url", false),
            ("x-http-method-override", false),
            ("via", false),
            ("x_http_method_override", false),
            ("connection", false),
            ("keep-alive", false),
            ("te", false),
            ("trailer", false),
            ("transfer-encoding", false),
            ("upgrade", false),
            ("host", false),
        ] {
            let mut headers = map(&[(name, "value")]);
            strip_request(&mut headers, TOKEN);
            assert_eq!(headers.contains_key(name.to_ascii_lowercase()), passes, "{name}");
            assert_eq!(headers[ACCEPT_ENCODING], "identity");
        }
    }

    #[test]
    fn request_loses_headers_that_connection_lists_or_that_hold_the_token() {
        const TOKEN: &str = "0123456789abcdef0123456789abcdef";
        let mut headers = map(&[
            ("connection", "close, X-Hop"),
            ("connection", "x-other"),
            ("x-hop", "1"),
            ("x-other", "1"),
            ("x-note", "my token is session-0123456789abcdef0123456789abcdef"),
            ("x-kept", "1"),
            ("accept-encoding", "gzip"),
        ]);
        strip_request(&mut headers, TOKEN);
        let names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-kept", "accept-encoding"]);
    }

    #[test]
    fn response_loses_cookies_accounts_and_the_key() {
        let mut headers = map(&[
            ("content-type", "text/event-stream"),
            ("content-length", "3"),
            ("request-id", "req_1"),
            ("set-cookie", "a=b"),
            ("anthropic-organization-id", "org"),
            ("alt-svc", "h3"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("trailer", "Grpc-Status, set-cookie"),
            ("trailer", "x-hop, content-length, x-sum,"),
            ("x-echo", "Bearer sk-secret-key, again"),
            ("location", "https://elsewhere.example/"),
        ]);
        strip_answer(&mut headers, &[Pattern::new(b"sk-secret-key")]);
        let mut left: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        left.sort_unstable();
        assert_eq!(
            left,
            [
                ("content-length", "3"),
                ("content-type", "text/event-stream"),
                ("location", "https://elsewhere.example/"),
                ("request-id", "req_1"),
                ("trailer", "grpc-status, x-sum"),
                ("x-echo", "[scrubbed]"),
            ]
        );
    }

    #[test]
    fn trailers_lose_what_headers_lose_and_what_frames_a_body() {
        let mut trailers = map(&[
            ("grpc-status", "0"),
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("set-cookie", "a=b"),
            ("x-echo", "sk-secret-key"),
        ]);
        strip_trailers(&mut trailers, &[Pattern::new(b"sk-secret-key")]);
        let names: Vec<_> =
            trailers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(names, [("grpc-status", &b"0"[..]), ("x-echo", b"[scrubbed]")]);
    }

    #[test]
    fn trailers_are_wanted_when_te_and_connection_say_so() {
        for (lines, version, wanted) in [
            (&[("te", "trailers"), ("connection", "TE")][..], Version::HTTP_11, true),
            (&[("te", "gzip, Trailers"), ("connection", "close, te")], Version::HTTP_11, true),
            (&[("te", "trailers")], Version::HTTP_11, false),
            (&[("te", "gzip"), ("connection", "te")], Version::HTTP_11, false),
            (&[("te", "trailers")], Version::HTTP_2, true),
            (&[], Version::HTTP_2, false),
        ] {
            assert_eq!(wants_trailers(&map(lines), version), wanted, "{lines:?}");
        }
    }
}
