//! Which headers pass, in each direction.
//!
//! A request keeps what describes it. Everything that could be a credential goes, by name: a second
//! one beside ours would let the sandbox choose whose account is used. So does everything that
//! belongs to one connection, that speaks to proxies, or that asks a server to read another method
//! or path than the one the rules saw.

use hyper::Version;
use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};

use crate::scrub::Pattern;

/// Credentials by name. What only contains such a word is in [`CREDENTIAL_WORDS`].
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

/// What nearly every request has: not worth a search for words.
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

/// Headers that name another host, method or path than the request does, or speak of who asks. Those of a
/// WebSocket's handshake are set anew where there is one.
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

/// What an answer says about the account, or would make a client do elsewhere.
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

/// Whether a header belongs to one connection alone (RFC 9110, 7.6.1), or is set by whoever sends.
pub(crate) fn is_connection_bound(name: &HeaderName) -> bool {
    [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, HOST, CONTENT_LENGTH].contains(name)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Whether a request's header could be a credential.
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

/// A name as CGI and its successors read it, where that differs: `x_auth_token` and `x.auth.token` are
/// `x-auth-token` there.
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

/// Names that `Connection` lists: they belong to the connection too.
fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    words(headers, &CONNECTION).filter_map(|name| HeaderName::from_bytes(name).ok()).collect()
}

/// The items of a list. A value that is not text still has items between its commas.
fn words<'h>(headers: &'h HeaderMap, list: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    let values = headers.get_all(list).into_iter().map(HeaderValue::as_bytes);
    values.flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

/// Takes out of a request what does not pass. `token` is what it was authenticated with: a header
/// that carries it anywhere goes too.
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
    // The answer is looked through for the key, which works on plain text only.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Returns whether the client wants trailers. In HTTP/1.1 `Connection` has to list `TE`, which keeps it from
/// passing through proxies that know nothing of it (RFC 9110, 10.1.4).
pub(crate) fn wants_trailers(headers: &HeaderMap, version: Version) -> bool {
    let asked = words(headers, &TE).any(|word| word.eq_ignore_ascii_case(b"trailers"));
    asked && (version >= Version::HTTP_2 || nominated(headers).contains(&TE))
}

/// Takes out of an answer what does not pass, and the key where a value repeats it. `Trailer` stays, for the
/// names that pass: it announces to HTTP/1.1 clients what follows the body.
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

/// Takes out of an answer's trailers what would not pass among its headers, and what frames a body.
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

/// Replaces values that repeat a secret.
fn scrub_values(headers: &mut HeaderMap, secrets: &[Pattern]) {
    for value in headers.values_mut() {
        if secrets.iter().any(|secret| secret.is_in(value.as_bytes())) {
            *value = HeaderValue::from_static("[scrubbed]");
        }
    }
}

/// Removes in one go, with a second look at the names only when there is something to remove.
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
    fn request_keeps_what_describes_it_and_nothing_that_speaks_for_somebody() {
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
    fn request_loses_what_connection_names_and_what_repeats_the_token() {
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
    fn answer_loses_cookies_accounts_and_the_key() {
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
    fn trailers_are_wanted_when_the_client_says_so_to_its_neighbour() {
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
