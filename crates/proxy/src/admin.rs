//! Admin interface of the proxy: registers sessions and reports their usage.
//!
//! It is a separate socket that only the owner of the proxy can open. Requests through a sandbox's listener never
//! reach it.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use zeroize::Zeroizing;

use crate::Proxy;
use crate::credential::Secret;
use crate::data::Body;
use crate::error::Refusal;
use crate::limits;
use crate::rendezvous::{NewRendezvous, RendezvousError, RendezvousSockets};
use crate::session::{Registration, RegistrationError, StoreError};
use crate::token::TokenHash;

/// Size limit of a message.
const LARGEST: u64 = 1 << 20;

/// Authentication that a connection to this interface needs.
#[derive(Debug, Clone)]
pub(crate) enum Admission {
    /// None: the permissions of the socket restrict it to its owner.
    Owner,
    /// The admin token.
    Bearer(Arc<TokenHash>),
}

/// Serves one connection.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    proxy: Arc<Proxy>,
    rendezvous: Arc<RendezvousSockets>,
    admission: Admission,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (proxy, rendezvous, admission) = (proxy.clone(), rendezvous.clone(), admission.clone());
        async move {
            let answer = answer(&proxy, &rendezvous, &admission, request).await;
            Ok::<_, Infallible>(answer.unwrap_or_else(|refusal| refusal.response().map(Body::from)))
        }
    });
    // A client may disconnect at any time.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_TIMEOUT)
        .max_buf_size(limits::BUFFER)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

type Answer = Result<Response<Body>, Refusal>;

async fn answer(
    proxy: &Proxy,
    rendezvous: &RendezvousSockets,
    admission: &Admission,
    request: Request<Incoming>,
) -> Answer {
    admit(admission, &request)?;
    let (head, body) = request.into_parts();
    let path: Vec<&str> = head.uri.path().split('/').skip(1).collect();
    match (&head.method, path.as_slice()) {
        (&Method::GET, ["v1", "health"]) => Ok(reply(StatusCode::OK, &health(proxy))),
        (&Method::GET, ["v1", "sessions"]) => {
            Ok(reply(StatusCode::OK, &json!(proxy.registry.list())))
        }
        (&Method::GET, ["v1", "usage"]) => Ok(reply(StatusCode::OK, &usage(proxy))),
        (&Method::GET, ["metrics"]) => Ok(text(proxy.metrics.text(proxy.registry.len()))),
        (&Method::POST, ["v1", "sessions"]) => register(proxy, &read(body).await?),
        (&Method::PUT, ["v1", "sessions", token, "key"]) => {
            rotate(proxy, token, &read(body).await?)
        }
        (&Method::DELETE, ["v1", "sessions", token]) => revoke(proxy, token),
        (&Method::DELETE, ["v1", "sandboxes", id, "sessions"]) => revoke_sandbox(proxy, id),
        (&Method::GET, ["v1", "doors"]) => Ok(reply(StatusCode::OK, &rendezvous.list())),
        (&Method::PUT, ["v1", "doors", id]) => open_rendezvous(rendezvous, id, &read(body).await?),
        (&Method::DELETE, ["v1", "doors", id]) => close_rendezvous(rendezvous, id),
        (&Method::POST, ["v1", "secrets", "forget"]) => {
            proxy.registry.forget_keys();
            Ok(reply(StatusCode::OK, &json!({ "status": "forgotten" })))
        }
        _ => Err(no_such_thing(&head.method, head.uri.path())),
    }
}

fn admit(admission: &Admission, request: &Request<Incoming>) -> Result<(), Refusal> {
    let Admission::Bearer(expected) = admission else { return Ok(()) };
    let sent = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = sent
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    // Comparing hashes leaks no timing information about the token.
    if token.is_some_and(|(_, token)| TokenHash::of(token.trim()) == **expected) {
        return Ok(());
    }
    let hint = "send the proxy's admin token as `Authorization: Bearer`";
    Err(Refusal::new(
        StatusCode::UNAUTHORIZED,
        "admin_token",
        "the admin token is missing or wrong",
        hint,
    ))
}

fn health(proxy: &Proxy) -> Value {
    json!({
        "status": "ok",
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "sessions": proxy.registry.len(),
        "listening": proxy.listening.get(),
    })
}

fn usage(proxy: &Proxy) -> Value {
    let sessions = proxy.registry.list();
    let mut total = crate::usage::Tokens::default();
    for session in &sessions {
        total += session.usage.tokens;
    }
    json!({ "total": total, "sessions": sessions })
}

fn register(proxy: &Proxy, body: &[u8]) -> Answer {
    let registration: Registration =
        serde_json::from_slice(body).map_err(|error| not_understood(&error))?;
    let session = proxy.registry.register(registration, false).map_err(|error| refused(&error))?;
    save(proxy)?;
    Ok(reply(StatusCode::CREATED, &json!({ "status": "registered", "id": session.id })))
}

fn rotate(proxy: &Proxy, token: &str, body: &[u8]) -> Answer {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct New {
        api_key: Secret,
    }
    let new: New = serde_json::from_slice(body).map_err(|error| not_understood(&error))?;
    match proxy.registry.rotate(token, new.api_key) {
        Ok(true) => Ok(reply(StatusCode::OK, &json!({ "status": "rotated" }))),
        Ok(false) => Err(no_session()),
        Err(error) => Err(refused(&error)),
    }
}

fn revoke(proxy: &Proxy, token: &str) -> Answer {
    if !proxy.registry.revoke(token) {
        return Err(no_session());
    }
    save(proxy)?;
    Ok(reply(StatusCode::OK, &json!({ "status": "revoked" })))
}

fn revoke_sandbox(proxy: &Proxy, id: &str) -> Answer {
    let count = proxy.registry.revoke_sandbox(id);
    save(proxy)?;
    Ok(reply(StatusCode::OK, &json!({ "status": "revoked", "count": count, "sandbox": id })))
}

fn open_rendezvous(rendezvous: &RendezvousSockets, id: &str, body: &[u8]) -> Answer {
    let new: NewRendezvous =
        serde_json::from_slice(body).map_err(|error| not_understood(&error))?;
    let failed = |error: RendezvousError| Refusal::of(StatusCode::BAD_REQUEST, "door", &error);
    rendezvous.open(id, new).map_err(failed)?;
    Ok(reply(StatusCode::CREATED, &json!({ "status": "open", "sandbox": id })))
}

fn close_rendezvous(rendezvous: &RendezvousSockets, id: &str) -> Answer {
    let was = rendezvous.close(id).map_err(|error| not_saved(&error))?;
    Ok(reply(StatusCode::OK, &json!({ "status": "closed", "was_open": was, "sandbox": id })))
}

fn save(proxy: &Proxy) -> Result<(), Refusal> {
    proxy.registry.save().map_err(|error| not_saved(&error))
}

fn not_saved(error: &StoreError) -> Refusal {
    Refusal::of(StatusCode::INTERNAL_SERVER_ERROR, "not_saved", error)
}

/// Reads a message to its end. The buffer is zeroed on drop because it may contain a key.
async fn read(mut body: Incoming) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let mut read = BytesMut::new();
    let too_large = || {
        let message = format!("the message is larger than {LARGEST} bytes");
        Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            message,
            "send a smaller message",
        )
    };
    while let Some(frame) =
        std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await
    {
        let frame = frame.map_err(|error| {
            Refusal::new(
                StatusCode::BAD_REQUEST,
                "body_incomplete",
                error.to_string(),
                "send the whole message",
            )
        })?;
        if let Ok(data) = frame.into_data() {
            if (read.len() + data.len()) as u64 > LARGEST {
                return Err(too_large());
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(Zeroizing::new(read.to_vec()))
}

fn reply(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(value.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn text(text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(text)));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn refused(error: &RegistrationError) -> Refusal {
    Refusal::of(StatusCode::BAD_REQUEST, "registration", error)
}

fn not_understood(error: &serde_json::Error) -> Refusal {
    let hint = "send JSON with `token`, `provider`, and `api_key` or `secret`";
    Refusal::new(StatusCode::BAD_REQUEST, "message", format!("invalid message: {error}"), hint)
}

fn no_session() -> Refusal {
    let hint = "list the sessions with `GET /v1/sessions`";
    Refusal::new(StatusCode::NOT_FOUND, "no_session", "no session has this token", hint)
}

fn no_such_thing(method: &Method, path: &str) -> Refusal {
    let message = format!("unknown admin request `{method} {path}`");
    let hint = "the paths are /v1/sessions, /v1/sandboxes/ID/sessions, /v1/doors, /v1/health, /v1/usage and /metrics";
    Refusal::new(StatusCode::NOT_FOUND, "no_such_thing", message, hint)
}
