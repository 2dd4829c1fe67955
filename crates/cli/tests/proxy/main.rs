//! The credential proxy: the real binary, real sockets, a real server behind it.
#![allow(clippy::unwrap_used, reason = "helpers of tests stand outside of test functions")]
#![allow(clippy::similar_names, reason = "heads are heard, and stages are in states")]

mod stage;
mod server;
mod wire;
mod contract;
mod credentials;
mod paths;
mod streaming;
mod smuggling;
mod limits;
mod server_tools;
mod timeouts;
mod telemetry;
mod http2;
mod hostile;
mod websocket;
mod tls;
mod attach;
mod doors;
mod lifecycle;
