//! Size limits and timeouts. Sessions can lower some of them.

use std::time::Duration;

/// Bytes of a message head.
pub(crate) const HEADERS: usize = 64 << 10;
/// [`HEADERS`] in the type of HTTP/2's settings.
pub(crate) const HEADERS_AS_U32: u32 = 64 << 10;
/// Bytes that a connection buffers in each direction.
pub(crate) const BUFFER: usize = 64 << 10;
/// Bytes of a request body, which is streamed.
pub(crate) const BODY: u64 = 1 << 30;
/// Bytes of a request body that is buffered because a rule inspects it.
pub(crate) const INSPECTED_BODY: u64 = 32 << 20;
/// Concurrent requests of a session.
pub(crate) const PARALLEL: u32 = 256;
/// Concurrent connections of a sandbox.
pub(crate) const CONNECTIONS: usize = 4096;
/// Concurrent requests on an HTTP/2 connection.
pub(crate) const STREAMS: u32 = 256;

/// Timeout for a head, from the start of a connection or the end of the previous request.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for name resolution, connection and TLS handshake together.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout from a request to the head of the response. Models may think for a long time first.
pub(crate) const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(600);
/// Timeout between two pieces of a body, in either direction. The whole body has no time limit.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
