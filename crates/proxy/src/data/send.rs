//! Sending of requests to the session's server, over pooled or new connections.

use std::time::Duration;

use hyper::header::HOST;
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, StatusCode, Uri, Version};

use super::Shared;
use super::body;
use super::exchange::Exchange;
use crate::error::Refusal;
use crate::session::ProxySession;
use crate::upload::{Progress, Upload};
use crate::upstream::{DialError, Dialer, Lease, NotSent, Reply};
use sandbox_linux::error::chain;

/// Sends a request over a pooled connection, or else over a new one.
pub(super) async fn send(
    shared: &Shared,
    session: &ProxySession,
    mut request: Request<Upload>,
    exchange: &Exchange,
) -> Result<Response<Reply>, Refusal> {
    while let Some(lease) = shared.pool.reuse(&session.target) {
        match attempt(lease, request, session, exchange).await? {
            Attempt::Sent(sent) => return Ok(sent),
            // The server closed the idle connection before it read anything.
            Attempt::Unused(unused) => request = *unused,
        }
    }
    let dialer = Dialer { timeout: session.limits.connect() };
    let lease =
        shared.pool.open(&session.target, dialer).await.map_err(|error| not_dialled(&error))?;
    match attempt(lease, request, session, exchange).await? {
        Attempt::Sent(sent) => Ok(sent),
        Attempt::Unused(_) => Err(unreachable("it closed a new connection immediately")),
    }
}

/// Sends a request over a new connection that a protocol upgrade may take over.
pub(super) async fn send_alone(
    shared: &Shared,
    session: &ProxySession,
    request: Request<Upload>,
    exchange: &Exchange,
) -> Result<Response<Reply>, Refusal> {
    let dialer = Dialer { timeout: session.limits.connect() };
    let lease = shared
        .pool
        .open_alone(&session.target, dialer)
        .await
        .map_err(|error| not_dialled(&error))?;
    match attempt(lease, request, session, exchange).await? {
        Attempt::Sent(sent) => Ok(sent),
        Attempt::Unused(_) => Err(unreachable("it closed a new connection immediately")),
    }
}

enum Attempt {
    Sent(Response<Reply>),
    Unused(Box<Request<Upload>>),
}

async fn attempt(
    lease: Lease,
    mut request: Request<Upload>,
    session: &ProxySession,
    exchange: &Exchange,
) -> Result<Attempt, Refusal> {
    if lease.is_http2() {
        for_http2(&mut request, session)?;
    }
    let wait = session.limits.first_byte();
    match first_byte(lease.send(request), wait, &exchange.upload).await {
        Some(Ok(sent)) => Ok(Attempt::Sent(sent)),
        Some(Err(NotSent::Unused(request))) => Ok(Attempt::Unused(request)),
        Some(Err(NotSent::Failed(error))) => Err(match exchange.upload.failed() {
            Some(why) => body::upload_failed(why, session.limits.body()),
            None => unreachable(&chain(&error)),
        }),
        None => Err(Refusal::new(
            StatusCode::GATEWAY_TIMEOUT,
            "first_byte_timeout",
            format!("the server did not respond within {} seconds", wait.as_secs()),
            "retry, or request a streaming response",
        )),
    }
}

/// Moves the server's name from the `host` header to the request target, as HTTP/2 requires (RFC 9113, 8.3.1).
fn for_http2(request: &mut Request<Upload>, session: &ProxySession) -> Result<(), Refusal> {
    request.headers_mut().remove(HOST);
    let uri = Uri::builder()
        .scheme("https")
        .authority(session.target.authority())
        .path_and_query(request.uri().path_and_query().map_or("/", PathAndQuery::as_str))
        .build()
        .map_err(|_| unreachable("its name is not a valid HTTP/2 authority"))?;
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_2;
    Ok(())
}

/// Waits for the head of a response. Does not time out while the request body makes progress.
async fn first_byte<T>(
    answer: impl Future<Output = T>,
    wait: Duration,
    upload: &Progress,
) -> Option<T> {
    let mut answer = std::pin::pin!(answer);
    let mut sent = upload.bytes();
    loop {
        if let Ok(done) = tokio::time::timeout(wait, answer.as_mut()).await {
            return Some(done);
        }
        let now = upload.bytes();
        if std::mem::replace(&mut sent, now) == now {
            return None;
        }
    }
}

pub(super) fn unreachable(why: &str) -> Refusal {
    let hint = "check the provider's status; see the proxy's audit log for details";
    Refusal::new(
        StatusCode::BAD_GATEWAY,
        "upstream_failed",
        format!("no response from the server: {why}"),
        hint,
    )
    .retry(1)
}

fn not_dialled(error: &DialError) -> Refusal {
    let (code, hint) = match error {
        DialError::Forbidden(..) => (
            "address_denied",
            "if this is intended, set `upstream_url` of the secret to the address",
        ),
        DialError::Tls(..) => (
            "upstream_tls",
            "for a private certificate authority, start the proxy with `SSL_CERT_FILE`",
        ),
        DialError::Timeout(_) => {
            ("connect_timeout", "check that this machine can reach the provider")
        }
        _ => ("upstream_unreachable", "check that this machine can reach the provider"),
    };
    let refusal = Refusal::new(StatusCode::BAD_GATEWAY, code, chain(error), hint);
    if matches!(error, DialError::Forbidden(..)) { refusal } else { refusal.retry(1) }
}
