//! New connections: resolves the name once, checks the addresses, and dials one of them.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::{Target, address, tls};

/// Failure to connect to a server.
#[derive(Debug, Error)]
pub(crate) enum DialError {
    #[error("cannot resolve `{0}`")]
    Resolve(String, #[source] io::Error),
    #[error("`{0}` resolves to {1}, which is not allowed for this session")]
    Forbidden(String, String),
    #[error("cannot connect to `{0}`")]
    Connect(String, #[source] io::Error),
    #[error("the connection to `{0}` timed out")]
    Timeout(String),
    #[error("TLS handshake with `{0}` failed")]
    Tls(String, #[source] io::Error),
    #[error("HTTP handshake with `{0}` failed")]
    Handshake(String, #[source] hyper::Error),
}

/// Settings of new connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialer {
    /// Timeout for name resolution, connection and TLS handshake together.
    pub timeout: Duration,
}

/// A new connection, and the protocol that was negotiated on it.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub stream: Stream,
    pub http2: bool,
}

/// Protocols to offer on a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocols {
    /// HTTP/2 or HTTP/1.1, as the server prefers.
    Any,
    /// HTTP/1.1, the only one with upgrades to WebSockets.
    Http1,
}

impl Dialer {
    pub(crate) async fn dial(
        self,
        target: &Target,
        protocols: Protocols,
    ) -> Result<Dialled, DialError> {
        match timeout(self.timeout, dial(target, protocols)).await {
            Ok(done) => done,
            Err(_) => Err(DialError::Timeout(target.url())),
        }
    }
}

async fn dial(target: &Target, protocols: Protocols) -> Result<Dialled, DialError> {
    let tcp = connect(target, &addresses(target).await?).await?;
    // Events of a stream must be sent immediately.
    tcp.set_nodelay(true).map_err(|error| DialError::Connect(target.url(), error))?;
    if !target.tls {
        return Ok(Dialled { stream: Stream::Plain(tcp), http2: false });
    }
    let failed = |error| DialError::Tls(target.url(), error);
    let settings = tls::settings().map_err(failed)?;
    let config = if protocols == Protocols::Any { &settings.any } else { &settings.http1 };
    let name = ServerName::try_from(target.host.clone())
        .map_err(|error| failed(io::Error::other(error)))?;
    let connector = tokio_rustls::TlsConnector::from(config.clone());
    let stream = connector.connect(name, tcp).await.map_err(failed)?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok(Dialled { stream: Stream::Tls(Box::new(stream)), http2 })
}

/// Returns the allowed addresses. Fails when there are none.
async fn addresses(target: &Target) -> Result<Vec<SocketAddr>, DialError> {
    let found: Vec<SocketAddr> = match target.address() {
        Some(address) => vec![SocketAddr::new(address, target.port)],
        None => tokio::net::lookup_host((target.host.as_str(), target.port))
            .await
            .map_err(|error| DialError::Resolve(target.host.clone(), error))?
            .collect(),
    };
    let (good, bad): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|found| address::allowed(target, found.ip()));
    match (good.is_empty(), bad.first()) {
        (false, _) => Ok(good),
        (true, Some(bad)) => Err(DialError::Forbidden(target.host.clone(), bad.ip().to_string())),
        (true, None) => {
            let none = io::Error::new(io::ErrorKind::NotFound, "no address");
            Err(DialError::Resolve(target.host.clone(), none))
        }
    }
}

/// Tries the addresses in order. Each has a timeout, so that an unresponsive one does not use up the whole time.
async fn connect(target: &Target, addresses: &[SocketAddr]) -> Result<TcpStream, DialError> {
    const EACH: Duration = Duration::from_secs(4);
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for address in addresses {
        match timeout(EACH, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(DialError::Connect(target.url(), last))
}

/// Connection to a server, with or without TLS.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls a method of the underlying stream.
macro_rules! either {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream.get_mut() {
            Stream::Plain($inner) => $call,
            Stream::Tls($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, inner => Pin::new(inner).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, inner => Pin::new(inner).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, inner => Pin::new(inner).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, inner => Pin::new(inner).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, inner => Pin::new(inner).poll_shutdown(cx))
    }
}
