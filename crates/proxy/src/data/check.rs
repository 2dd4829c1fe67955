//! Checks of a request's form and path before it is forwarded.

use hyper::header::{HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};

use super::authenticate::Known;
use crate::error::Refusal;
use crate::session::ProxySession;

/// Refuses forward-proxy requests and unknown transfer encodings. Clients must treat the listener as an origin server.
pub(super) fn form(head: &Parts) -> Result<(), Refusal> {
    let misplaced = head.version < Version::HTTP_2
        && (head.uri.authority().is_some() || head.uri.scheme().is_some());
    if head.method == Method::CONNECT || misplaced || !head.uri.path().starts_with('/') {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "not_a_proxy",
            "this listener forwards to one provider only",
            "send a path such as `/v1/messages` instead of a full URL",
        ));
    }
    let chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    let codings: Vec<_> = head.headers.get_all(TRANSFER_ENCODING).iter().collect();
    if codings.len() > 1 || !codings.into_iter().all(chunked) {
        let hint = "send the body with `content-length` or chunked";
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "transfer_encoding",
            "unsupported transfer encoding",
            hint,
        ));
    }
    Ok(())
}

/// Returns true when text contains a token in any layer of percent-encoding. `path::check` has limited the layers.
fn holds(text: &str, token: &str) -> bool {
    text.contains(token) || crate::path::decode_text(text).is_some_and(|plain| holds(&plain, token))
}

pub(super) fn path(session: &ProxySession, known: &Known, head: &Parts) -> Result<(), Refusal> {
    let raw = head.uri.path();
    let wrong = |error: crate::path::PathError| {
        Refusal::new(
            StatusCode::BAD_REQUEST,
            "path",
            error.to_string(),
            "use the path from the provider's documentation",
        )
    };
    crate::path::check(raw).map_err(wrong)?;
    if holds(raw, known.token.as_str()) {
        let hint = "send the token in a header";
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "token_in_path",
            "the path contains the session token",
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
    let message = format!("`{} {plain}` is not allowed in this session", head.method);
    let hint =
        format!("add `{} {plain}` to `routes` of the secret, outside the sandbox", head.method);
    Err(Refusal::new(StatusCode::FORBIDDEN, "route_denied", message, hint))
}
