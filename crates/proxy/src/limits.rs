//! How much of anything is enough. Sessions can lower some of these.

use std::time::Duration;

/// The head of a request or an answer.
pub(crate) const HEADERS: usize = 64 << 10;
/// The same, for HTTP/2's settings.
pub(crate) const HEADERS_AS_U32: u32 = 64 << 10;
/// What one connection reads ahead, and holds back from a slow reader.
pub(crate) const BUFFER: usize = 64 << 10;
/// A request's body. It is never held in memory as a whole.
pub(crate) const BODY: u64 = 1 << 30;
/// A request's body that has to be read before it is forwarded, because a rule looks into it.
pub(crate) const INSPECTED_BODY: u64 = 32 << 20;
/// Requests of one session at a time.
pub(crate) const PARALLEL: u32 = 256;
/// Connections of one sandbox at a time.
pub(crate) const CONNECTIONS: usize = 4096;
/// Requests on one HTTP/2 connection at a time.
pub(crate) const STREAMS: u32 = 256;

/// From the first byte of a connection, or from one request to the next, to the end of a head.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// For name, connection and TLS together.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// From the request to the head of the answer. Models think for long before they say the first word.
pub(crate) const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(600);
/// Between two pieces of a body, in either direction. A body as a whole may take for ever.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
