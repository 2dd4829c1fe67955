//! Checks of a request's body before it is forwarded: size, model, and server-side tools. The body is buffered only
//! when a rule needs its content.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use super::exchange::Exchange;
use crate::error::Refusal;
use crate::limits;
use crate::server_tools::{Judged, ServerTools, unreadable};
use crate::session::ProxySession;
use crate::upload::{Upload, UploadError};

/// Applies the session's limits to the body.
pub(super) async fn checked(
    session: &ProxySession,
    head: &mut Parts,
    body: Incoming,
    exchange: &mut Exchange,
) -> Result<Upload, Refusal> {
    let most = session.limits.body();
    if body.size_hint().lower() > most {
        return Err(too_large(most));
    }
    let asks = head.method != Method::GET && head.method != Method::HEAD;
    let models = asks && session.limits.models.is_some();
    let tools = match &session.server_tools {
        Some(tools) if !body.is_end_stream() => tools_to_check(tools, head)?,
        _ => None,
    };
    if !models && tools.is_none() {
        return Ok(Upload::client(body, session.limits.idle(), most, exchange.upload.clone()));
    }
    let most = most.min(limits::INSPECTED_BODY);
    if body.size_hint().lower() > most {
        return Err(too_large(most));
    }
    let upload = Upload::client(body, session.limits.idle(), most, Arc::default());
    let mut read = read_all(upload, most).await?;
    if models {
        check_model(session, head, &read)?;
    }
    if let Some(Judged::Without { body, tools }) =
        tools.map(|tools| tools.judge(&read)).transpose()?
    {
        head.headers.remove(CONTENT_LENGTH);
        exchange.taken_out = tools;
        read = body.into();
    }
    Ok(Upload::memory(read, exchange.upload.clone()))
}

/// Returns the rule that has to inspect the body, if any. Forms only carry files and speech. All other types are
/// refused, because a provider may interpret them in unknown ways.
fn tools_to_check<'s>(
    tools: &'s ServerTools,
    head: &Parts,
) -> Result<Option<&'s ServerTools>, Refusal> {
    let plain =
        |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    if !head.headers.get_all(CONTENT_ENCODING).iter().all(plain) {
        return Err(unreadable("it is compressed"));
    }
    match kind(&head.headers) {
        Some(Kind::Json) => Ok(Some(tools)),
        // Audio uploads, and files if they are allowed.
        Some(Kind::Form) if head.uri.path().starts_with("/v1/audio/") || tools.allow("files") => {
            Ok(None)
        }
        _ => Err(unreadable("its `content-type` is not `application/json`")),
    }
}

enum Kind {
    Json,
    Form,
}

/// Returns the declared content type of a body, if it is form data or UTF-8 JSON.
fn kind(headers: &HeaderMap) -> Option<Kind> {
    let mut said = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (said.next(), said.next()) else { return None };
    let mut parts = kind.to_str().ok()?.split(';').map(str::trim);
    let kind = parts.next()?;
    if kind.eq_ignore_ascii_case("multipart/form-data") {
        return Some(Kind::Form);
    }
    let utf8 = |part: &str| part.is_empty() || part.eq_ignore_ascii_case("charset=utf-8");
    (kind.eq_ignore_ascii_case("application/json") && parts.all(utf8)).then_some(Kind::Json)
}

fn check_model(session: &ProxySession, head: &Parts, body: &[u8]) -> Result<(), Refusal> {
    let model = model(head.uri.path(), body).ok_or_else(no_model)?;
    if session.limits.allows_model(&model) {
        return Ok(());
    }
    let message = format!("this session may not use the model `{model}`");
    let hint = "add it to `models` of the secret, outside the sandbox";
    Err(Refusal::new(StatusCode::FORBIDDEN, "model_denied", message, hint))
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

/// Returns the requested model, from the body or from a Gemini-style path.
fn model(path: &str, body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Asked {
        model: String,
    }
    if let Some((_, rest)) = path.split_once("/models/") {
        return rest.split(':').next().map(str::to_owned);
    }
    // serde rejects duplicate keys, so the provider cannot read a different model than the proxy.
    serde_json::from_slice::<Asked>(body).ok().map(|asked| asked.model)
}

fn too_large(most: u64) -> Refusal {
    let message = format!("the body is larger than {most} bytes");
    Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        message,
        "send a smaller body, or raise `max_body` of the secret",
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
    let hint = "send JSON with one `model`, or remove `models` from the secret";
    Refusal::new(
        StatusCode::FORBIDDEN,
        "model_unknown",
        "the session allows only listed models, and the request names none",
        hint,
    )
}
