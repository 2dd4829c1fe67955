//! Who may call: the owner of the socket, or whoever has the token. Never a page in somebody's browser.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::answer::{Refused, problem};
use super::wire::Problem;

/// By what a caller is known.
#[derive(Debug, Clone)]
pub(super) enum Access {
    /// The mode of the socket lets nobody else in.
    Owner,
    /// A token, at a port of this machine.
    Token {
        /// What the caller has to say.
        token: String,
        /// The port that it has to call.
        port: u16,
    },
}

/// Lets a call through, or not.
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
    // Programs do not send one. A browser does, whatever page made it call.
    if headers.contains_key(ORIGIN) {
        let wrong = Problem::new("forbidden", "pages in a browser may not call");
        return Some(Refused(StatusCode::FORBIDDEN, wrong));
    }
    let Access::Token { token, port } = access else { return None };
    // A name that leads here today may be anybody's: only this machine's own names are taken.
    if !headers.get(HOST).is_some_and(|host| is_own(host.as_bytes(), *port)) {
        let mut wrong = Problem::new("wrong_host", "this is not the name of this machine");
        wrong.hint = Some("call it as `localhost` or by its address".into());
        return Some(Refused(StatusCode::MISDIRECTED_REQUEST, wrong));
    }
    let expected = format!("Bearer {token}");
    let said = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    if !is_same(said, expected.as_bytes()) {
        let mut wrong = Problem::new("unauthorized", "the token is missing or wrong");
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

/// Takes as long for one wrong text as for another of that length.
fn is_same(said: &[u8], expected: &[u8]) -> bool {
    said.len() == expected.len()
        && said.iter().zip(expected).fold(0, |wrong, (a, b)| wrong | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
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
