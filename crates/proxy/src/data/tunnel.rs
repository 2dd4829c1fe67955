//! WebSockets. The handshake is checked and rewritten like any request. After it, bytes are forwarded both ways and the
//! server's are scrubbed.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use super::download::Body;
use super::exchange::{Exchange, Outcome};
use crate::credential::PlacedKey;
use crate::error::Refusal;
use crate::scrub::Scrubber;
use crate::upstream::Reply;
use crate::usage::{Counter, Counting};

/// The client's side of a connection that is being upgraded.
pub(super) struct Client(OnUpgrade);

/// An upgrade that the server accepted.
pub(super) struct Accepted {
    pub client: Client,
    pub answer: Response<Reply>,
    pub secrets: Arc<PlacedKey>,
}

/// Returns the client if it requests a WebSocket. Other protocols are refused, but an offer of HTTP/2 is ignored as RFC
/// 9110, 7.8, allows: curl and Java send it with every plain HTTP request.
pub(super) fn wanted(head: &mut Parts) -> Result<Option<Client>, Refusal> {
    let Some(protocol) = head.headers.get(UPGRADE) else { return Ok(None) };
    let asked = head.headers.get_all(CONNECTION).iter().any(|value| {
        value
            .as_bytes()
            .split(|byte| *byte == b',')
            .any(|word| word.trim_ascii().eq_ignore_ascii_case(b"upgrade"))
    });
    let offer = protocol.as_bytes().trim_ascii().eq_ignore_ascii_case(b"h2c")
        && head.headers.contains_key("http2-settings");
    if !asked || offer || head.version != Version::HTTP_11 {
        return Ok(None);
    }
    if !protocol.as_bytes().eq_ignore_ascii_case(b"websocket") {
        let hint = "request a WebSocket, or remove the `upgrade` header";
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "upgrade",
            "unsupported upgrade protocol",
            hint,
        ));
    }
    Ok(head.extensions.remove::<OnUpgrade>().map(Client))
}

/// Returns the headers of the handshake to forward. Extensions are dropped, because compressed data cannot be scrubbed.
pub(super) fn keep(headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let mut kept = vec![
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
    ];
    for name in [SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION] {
        kept.extend(headers.get(&name).map(|value| (name, value.clone())));
    }
    let protocols: Vec<&str> = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|item| !item.is_empty() && !item.contains("api-key") && !item.contains("session-"))
        .collect();
    if let Some(value) =
        HeaderValue::from_str(&protocols.join(", ")).ok().filter(|value| !value.is_empty())
    {
        kept.push((SEC_WEBSOCKET_PROTOCOL, value));
    }
    kept
}

/// Accepts the client's upgrade, and connects both sides once they have switched protocols.
pub(super) fn begin(accepted: Accepted, mut exchange: Exchange) -> Response<Body> {
    let Accepted { client, mut answer, secrets } = accepted;
    let accept = answer.headers().get(SEC_WEBSOCKET_ACCEPT).cloned();
    let protocol = answer.headers().get(SEC_WEBSOCKET_PROTOCOL).cloned();
    let server = hyper::upgrade::on(&mut answer);
    exchange.counter = Counter::new(Counting::Conversation);
    tokio::spawn(async move {
        // The exchange's outcome is `ClientGone` until both sides have switched.
        if let Ok((client, server)) = tokio::try_join!(client.0, server) {
            join(client, server, &secrets, exchange).await;
        }
    });
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    for (name, value) in [(SEC_WEBSOCKET_ACCEPT, accept), (SEC_WEBSOCKET_PROTOCOL, protocol)] {
        headers.extend(value.map(|value| (name, value)));
    }
    response
}

/// Forwards both ways until either side ends.
async fn join(client: Upgraded, server: Upgraded, secrets: &PlacedKey, mut exchange: Exchange) {
    let (from_client, to_client) = tokio::io::split(TokioIo::new(client));
    let (from_server, to_server) = tokio::io::split(TokioIo::new(server));
    exchange.outcome = Outcome::Complete;
    let mut up = std::pin::pin!(upwards(from_client, to_server));
    let mut down = std::pin::pin!(downwards(
        from_server,
        to_client,
        Scrubber::new(&secrets.scrubbed),
        &mut exchange
    ));
    tokio::select! {
        () = &mut up => {}
        () = &mut down => {}
    }
}

const PIECE: usize = 16 << 10;

async fn upwards(mut from: ReadHalf<TokioIo<Upgraded>>, mut to: WriteHalf<TokioIo<Upgraded>>) {
    let mut buffer = BytesMut::new();
    loop {
        buffer.clear();
        buffer.reserve(PIECE);
        match from.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(_) if to.write_all(&buffer).await.is_err() => return,
            Ok(_) => {}
        }
    }
    // Flush the client's last bytes before the connection closes.
    let _ = to.shutdown().await;
}

async fn downwards(
    mut from: ReadHalf<TokioIo<Upgraded>>,
    mut to: WriteHalf<TokioIo<Upgraded>>,
    mut scrubber: Scrubber,
    exchange: &mut Exchange,
) {
    loop {
        let mut buffer = BytesMut::with_capacity(PIECE);
        let read = from.read_buf(&mut buffer).await;
        let piece: Bytes = match read {
            Ok(0) | Err(_) => scrubber.rest(),
            Ok(count) => {
                exchange.bytes_out += count as u64;
                exchange.counter.see(&buffer);
                scrubber.pass(buffer.freeze())
            }
        };
        let written = to.write_all(&piece).await;
        if matches!(read, Ok(0) | Err(_)) || written.is_err() {
            let _ = to.shutdown().await;
            return;
        }
    }
}
