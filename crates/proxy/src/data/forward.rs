//! Forwarding of a request: checks it, swaps the credential, sends it to the session's server and returns the response.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode, Version};

use super::authenticate::{self, Scope};
use super::download::{Back, Body, Download};
use super::exchange::{Exchange, Outcome};
use super::{Shared, body, check, rewrite, send, tunnel};
use crate::credential::PlacedKey;
use crate::error::Refusal;
use crate::session::ProxySession;
use crate::upstream::Reply;

/// Answers a request, with an error response if it cannot be forwarded.
pub(crate) async fn answer(
    shared: &Shared,
    scope: &Scope,
    request: Request<Incoming>,
) -> Response<Body> {
    let mut exchange =
        Exchange::new(shared.proxy.clone(), request.method().clone(), request.uri().path());
    exchange.follow(request.headers());
    match forward(shared, scope, request, &mut exchange).await {
        Ok(Answer { head, body, secrets, back }) => {
            let download = Download::new(body, secrets, exchange, back);
            Response::from_parts(head, Body::Download(Box::new(download)))
        }
        Err(Ended::Refused(refusal)) => {
            exchange.begins(refusal.status.as_u16());
            exchange.outcome = Outcome::Refused(refusal.code);
            refusal.response().map(Body::from)
        }
        Err(Ended::Tunnelled(response)) => tunnel::begin(*response, exchange),
    }
}

/// A streaming response.
struct Answer {
    head: hyper::http::response::Parts,
    body: Reply,
    secrets: Arc<PlacedKey>,
    back: Option<Back>,
}

/// Outcome of a request without a streaming response.
enum Ended {
    Refused(Refusal),
    Tunnelled(Box<tunnel::Accepted>),
}

impl From<Refusal> for Ended {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

async fn forward(
    shared: &Shared,
    scope: &Scope,
    request: Request<Incoming>,
    exchange: &mut Exchange,
) -> Result<Answer, Ended> {
    let (mut head, body) = request.into_parts();
    check::form(&head)?;
    let known =
        authenticate::authenticate(&shared.proxy.registry, scope, &head.headers, head.uri.query())?;
    let session = known.session.clone();
    exchange.session = Some(session.clone());
    check::path(&session, &known, &head)?;
    exchange.permit = Some(session.admit()?);
    let body = body::checked(&session, &mut head, body, exchange).await?;
    let secrets = session.placed().await?;
    let upgrade = tunnel::wanted(&mut head)?;
    if upgrade.is_some() {
        check_upgrade(&session)?;
    }
    rewrite::rewrite(&mut head, &known, &secrets, upgrade.is_some())?;
    let request = Request::from_parts(head, body);
    let sent = match &upgrade {
        Some(_) => send::send_alone(shared, &session, request, exchange).await?,
        None => send::send(shared, &session, request, exchange).await?,
    };
    receive(shared, &session, sent, secrets, upgrade, exchange)
}

fn receive(
    shared: &Shared,
    session: &ProxySession,
    mut answer: Response<Reply>,
    secrets: Arc<PlacedKey>,
    upgrade: Option<tunnel::Client>,
    exchange: &mut Exchange,
) -> Result<Answer, Ended> {
    let status = answer.status();
    exchange.begins(status.as_u16());
    if status == StatusCode::UNAUTHORIZED {
        session.key_refused();
    }
    if status == StatusCode::SWITCHING_PROTOCOLS {
        let client = upgrade
            .ok_or_else(|| send::unreachable("it switched protocols without a request to do so"))?;
        return Err(Ended::Tunnelled(Box::new(tunnel::Accepted { client, answer, secrets })));
    }
    let headers = answer.headers_mut();
    check_encoding(headers)?;
    crate::headers::strip_answer(headers, &secrets.scrubbed);
    exchange.streams = headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let (mut head, body) = answer.into_parts();
    head.extensions.clear();
    head.version = Version::HTTP_11;
    let back = upgrade
        .is_none()
        .then(|| Back { pool: shared.pool.clone(), target: session.target.clone() });
    Ok(Answer { head, body, secrets, back })
}

/// Refuses a compressed response, because it cannot be scrubbed. The request did not allow compression.
fn check_encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    let plain =
        |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    if headers.get_all(CONTENT_ENCODING).iter().all(plain) {
        return Ok(());
    }
    let hint = "the provider ignored `accept-encoding: identity`; the proxy cannot scrub compressed responses";
    Err(Refusal::new(
        StatusCode::BAD_GATEWAY,
        "answer_encoded",
        "the server sent a compressed response",
        hint,
    ))
}

/// Refuses a WebSocket when a rule would have to inspect its messages.
fn check_upgrade(session: &ProxySession) -> Result<(), Refusal> {
    let (why, key) = if session.limits.models.is_some() {
        ("the list of models", "remove `models`")
    } else if session.server_tools.is_some() {
        ("the list of server-side tools", "set `server_tools = [\"*\"]`")
    } else {
        return Ok(());
    };
    let message = format!("cannot enforce {why} on a WebSocket");
    let hint =
        format!("use plain requests, or {key} in the secret's configuration, outside the sandbox");
    Err(Refusal::new(StatusCode::FORBIDDEN, "upgrade_denied", message, hint))
}
