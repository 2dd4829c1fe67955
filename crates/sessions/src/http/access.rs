//! Access control: the owner of the socket, or a client with the token. Never a web page.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::answer::{Refused, problem};
use super::wire::Problem;

/// Authentication of callers.
#[derive(Debug, Clone)]
pub(super) enum Access {
    /// The mode of the socket admits only its owner.
    Owner,
    /// Token over TCP.
    Token {
        /// Expected token.
        token: String,
        /// Expected port in the `Host` header.
        port: u16,
    },
}

/// Middleware that rejects unauthorized calls.
pub(super) async fn check(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    match refusal(&access, request.headers()) {
        Some(Refused(status, wrong)) => problem(status, &wrong),
        None => next.run(request).await,
    }
}

fn refusal(access: &Access, headers: &HeaderMap) -> Option<Refused> {
    // Only browsers send `Origin`, and any page can make one call.
    if headers.contains_key(ORIGIN) {
        let wrong = Problem::new("forbidden", "calls from web pages are not allowed");
        return Some(Refused(StatusCode::FORBIDDEN, wrong));
    }
    let Access::Token { token, port } = access else { return None };
    // Against DNS rebinding: accept only `localhost` and IP addresses, because any other name can
    // be made to resolve here.
    if !headers.get(HOST).is_some_and(|host| is_own(host.as_bytes(), *port)) {
        let mut wrong =
            Problem::new("wrong_host", "the `Host` header is not a name of this machine");
        wrong.hint = Some("use `localhost` or an IP address in the URL".into());
        return Some(Refused(StatusCode::MISDIRECTED_REQUEST, wrong));
    }
    let expected = format!("Bearer {token}");
    let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    if !is_same(given, expected.as_bytes()) {
        let mut wrong = Problem::new("unauthorized", "missing or wrong token");
        wrong.hint = Some("send the header `Authorization: Bearer TOKEN`".into());
        return Some(Refused(StatusCode::UNAUTHORIZED, wrong));
    }
    None
}

fn is_own(host: &[u8], port: u16) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = host.strip_suffix(&format!(":{port}")).unwrap_or(host);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<std::net::IpAddr>().is_ok()
}

/// Compares in time that depends only on the length.
fn is_same(given: &[u8], expected: &[u8]) -> bool {
    given.len() == expected.len()
        && given.iter().zip(expected).fold(0, |wrong, (a, b)| wrong | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_own_accepts_only_localhost_and_addresses() {
        for (host, own) in [
            ("localhost", true),
            ("LOCALHOST:80", true),
            ("127.0.0.1:80", true),
            ("[::1]:80", true),
            ("10.0.0.7:80", true),
            ("evil.example:80", false),
            ("localhost.evil.example", false),
            ("localhost:81", false),
            ("", false),
        ] {
            assert_eq!(is_own(host.as_bytes(), 80), own, "{host}");
        }
        assert!(is_same(b"abc", b"abc") && !is_same(b"abd", b"abc") && !is_same(b"ab", b"abc"));
    }
}
