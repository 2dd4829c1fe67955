//! The beginning of a WebSocket: RFC 6455, section 4.2.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use sha1::{Digest, Sha1};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::answer::Refused;
use super::wire::Problem;

/// A connection that carries messages.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The longest message, and the longest frame.
const LONGEST: usize = 1 << 20;

/// Answers a request for a WebSocket; `serve` gets it as soon as it is one.
pub(super) fn upgrade<F: Future<Output = ()> + Send>(
    mut request: Request,
    serve: impl FnOnce(Socket) -> F + Send + 'static,
) -> Result<Response, Refused> {
    let key = key(request.headers()).ok_or_else(|| {
        let mut wrong = Problem::new("upgrade_required", "this call is a WebSocket");
        wrong.hint = Some("send `Upgrade: websocket` with version 13 and a key".into());
        Refused(StatusCode::UPGRADE_REQUIRED, wrong)
    })?;
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        // Who goes away before it began has nothing to be told.
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

/// The proof that the request was understood.
fn accept(key: &str) -> String {
    const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    base64(&Sha1::digest(format!("{key}{MAGIC}").as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for piece in bytes.chunks(3) {
        let at = |index: usize| u32::from(piece.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for letter in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * letter) & 63).unwrap_or(0);
            text.push(if letter <= piece.len() { char::from(LETTERS[index]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_is_what_the_specification_says() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        for (bytes, text) in [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v")] {
            assert_eq!(base64(bytes), text);
        }
    }
}
