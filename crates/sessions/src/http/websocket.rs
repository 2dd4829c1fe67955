//! WebSocket handshake, RFC 6455 section 4.2.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use sha1::{Digest, Sha1};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::answer::Refused;
use super::wire::Problem;

/// Connection that carries messages.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Maximum size of a message and of a frame.
const LONGEST: usize = 1 << 20;

/// Answers a WebSocket request. Calls `serve` once the connection is established.
pub(super) fn upgrade<F: Future<Output = ()> + Send>(
    mut request: Request,
    serve: impl FnOnce(Socket) -> F + Send + 'static,
) -> Result<Response, Refused> {
    let key = key(request.headers()).ok_or_else(|| {
        let mut wrong = Problem::new("upgrade_required", "this call needs a WebSocket");
        wrong.hint = Some("use a WebSocket client (protocol version 13)".into());
        Refused(StatusCode::UPGRADE_REQUIRED, wrong)
    })?;
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        // The client may be gone.
        let Ok(upgraded) = upgrade.await else { return };
        let limits = WebSocketConfig::default()
            .max_message_size(Some(LONGEST))
            .max_frame_size(Some(LONGEST));
        let io = TokioIo::new(upgraded);
        serve(WebSocketStream::from_raw_socket(io, Role::Server, Some(limits)).await).await;
    });
    let answer = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_ACCEPT, accept(&key));
    answer.body(Body::empty()).map_err(|error| Problem::new("internal", error.to_string()).into())
}

fn key(headers: &HeaderMap) -> Option<String> {
    let is = |name, word: &str| {
        let value = headers.get(name)?.to_str().ok()?;
        value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)).then_some(())
    };
    is(CONNECTION, "upgrade")?;
    is(UPGRADE, "websocket")?;
    is(SEC_WEBSOCKET_VERSION, "13")?;
    Some(headers.get(SEC_WEBSOCKET_KEY)?.to_str().ok()?.to_owned())
}

/// Returns the value of `Sec-WebSocket-Accept`.
fn accept(key: &str) -> String {
    const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    STANDARD.encode(Sha1::digest(format!("{key}{MAGIC}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_matches_the_example_of_the_rfc() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
