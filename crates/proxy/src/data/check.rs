//! What is looked at before a request is forwarded: its form and its path.

use hyper::header::{HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};

use super::authenticate::Known;
use crate::error::Refusal;
use crate::session::Session;

/// The form of a request to a server. The others are for proxies that are told where to go.
pub(super) fn form(head: &Parts) -> Result<(), Refusal> {
    let misplaced = head.version < Version::HTTP_2
        && (head.uri.authority().is_some() || head.uri.scheme().is_some());
    if head.method == Method::CONNECT || misplaced || !head.uri.path().starts_with('/') {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "not_a_proxy",
            "this is the server of one provider, and forwards to no other",
            "ask for a path, such as `/v1/messages`, not for a whole URL",
        ));
    }
    let chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    let codings: Vec<_> = head.headers.get_all(TRANSFER_ENCODING).iter().collect();
    if codings.len() > 1 || !codings.into_iter().all(chunked) {
        let hint = "send the body with a length, or chunked";
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "transfer_encoding",
            "the body has an unknown coding",
            hint,
        ));
    }
    Ok(())
}

/// Returns true when text holds a token, in any layer of percent-encoding. `path::check` has bounded the layers.
fn holds(text: &str, token: &str) -> bool {
    text.contains(token) || crate::path::decode_text(text).is_some_and(|plain| holds(&plain, token))
}

pub(super) fn path(session: &Session, known: &Known, head: &Parts) -> Result<(), Refusal> {
    let raw = head.uri.path();
    let wrong = |error: crate::path::PathError| {
        Refusal::new(
            StatusCode::BAD_REQUEST,
            "path",
            error.to_string(),
            "ask for the path as the provider documents it",
        )
    };
    crate::path::check(raw).map_err(wrong)?;
    if holds(raw, known.token.as_str()) {
        let hint = "send the token in a header";
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "token_in_path",
            "the path has the session token in it",
            hint,
        ));
    }
    if session.routes.is_everything() {
        return Ok(());
    }
    let plain = crate::path::plain(raw).map_err(wrong)?;
    if session.routes.allow(&head.method, &plain) {
        return Ok(());
    }
    let message = format!("this session may not `{} {plain}`", head.method);
    let hint =
        format!("add `{} {plain}` to `routes` of the secret, outside the sandbox", head.method);
    Err(Refusal::new(StatusCode::FORBIDDEN, "route_denied", message, hint))
}
