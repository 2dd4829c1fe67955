//! What is looked at before a request is forwarded: its form, its path, its body.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};

use super::authenticate::Known;
use super::exchange::Exchange;
use super::upload::{Upload, UploadError};
use crate::error::Refusal;
use crate::limits;
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
    if raw.len() >= known.token.len() && raw.contains(known.token.as_str()) {
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

/// Holds the body to its limits; reads it first where the session's models have to be looked at.
pub(super) async fn body(
    session: &Session,
    head: &Parts,
    body: Incoming,
    exchange: &Exchange,
) -> Result<Upload, Refusal> {
    let most = session.limits.body();
    if body.size_hint().lower() > most {
        return Err(too_large(most));
    }
    if session.limits.models.is_none() || head.method == Method::GET || head.method == Method::HEAD
    {
        return Ok(Upload::client(body, &session.limits, most, exchange.upload.clone()));
    }
    let most = most.min(limits::INSPECTED_BODY);
    if body.size_hint().lower() > most {
        return Err(too_large(most));
    }
    let upload = Upload::client(body, &session.limits, most, Arc::default());
    let read = read_all(upload, most).await?;
    let model = model(head.uri.path(), &read).ok_or_else(no_model)?;
    if !session.limits.allows_model(&model) {
        let message = format!("this session may not use the model `{model}`");
        let hint = "add it to `models` of the secret, outside the sandbox";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "model_denied", message, hint));
    }
    Ok(Upload::memory(read, exchange.upload.clone()))
}

async fn read_all(mut body: Upload, most: u64) -> Result<Bytes, Refusal> {
    let mut read = bytes::BytesMut::new();
    while let Some(frame) =
        std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await
    {
        let frame = frame.map_err(|error| upload_failed(error, most))?;
        if let Ok(data) = frame.into_data() {
            read.extend_from_slice(&data);
        }
    }
    Ok(read.freeze())
}

/// The model that a request asks: in its body, or in its path as Gemini has it.
fn model(path: &str, body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Asked {
        model: String,
    }
    if let Some((_, rest)) = path.split_once("/models/") {
        return rest.split(':').next().map(str::to_owned);
    }
    // A name that stands twice is an error here, so nobody can read the other one.
    serde_json::from_slice::<Asked>(body).ok().map(|asked| asked.model)
}

fn too_large(most: u64) -> Refusal {
    let message = format!("the body is larger than {most} bytes");
    Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        message,
        "send less, or raise `max_body` of the secret",
    )
}

pub(super) fn upload_failed(why: UploadError, most: u64) -> Refusal {
    match why {
        UploadError::TooLarge => too_large(most),
        UploadError::Idle | UploadError::Client => Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_incomplete",
            why.to_string(),
            "send the whole body",
        ),
    }
}

fn no_model() -> Refusal {
    let hint = "send JSON with one `model`, or drop `models` of the secret";
    Refusal::new(
        StatusCode::FORBIDDEN,
        "model_unknown",
        "this session has a list of models, and the request names none",
        hint,
    )
}
