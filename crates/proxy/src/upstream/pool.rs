//! Connection pool. Each worker has one, so there is no contention.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::dial::{Dialled, Protocols};
use super::error::NotSent;
use super::http1::Connection;
use super::{DialError, Dialer, Reply, Target};
use crate::upload::Upload;

/// Idle time after which a connection is not reused. Servers close idle connections after about a minute.
const IDLE: Duration = Duration::from_secs(50);
/// Limit of idle connections to a server.
const KEPT: usize = 256;
/// Limit of streams on a connection. Servers usually allow about a hundred.
const STREAMS: usize = 90;

/// Connections of one worker.
#[derive(Debug)]
pub(crate) struct Pool {
    targets: Mutex<HashMap<Arc<Target>, Connections>>,
    /// Counter of opened connections, shared by all workers.
    opened: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Connections {
    idle: Vec<(Connection, Instant)>,
    shared: Vec<Shared>,
}

/// HTTP/2 connection for concurrent requests.
#[derive(Debug, Clone)]
struct Shared {
    sender: http2::SendRequest<Upload>,
    streams: Arc<()>,
}

/// Connection for one request.
#[derive(Debug)]
pub(crate) enum Lease {
    /// Exclusive HTTP/1.1 connection.
    Http1(Connection),
    /// Stream of an HTTP/2 connection. The `Arc` counts streams.
    Http2(http2::SendRequest<Upload>, Arc<()>),
    /// HTTP/1.1 connection that an upgrade may take over.
    Alone(http1::SendRequest<Upload>),
}

impl Pool {
    pub(crate) fn new(opened: Arc<AtomicUsize>) -> Self {
        Self { targets: Mutex::default(), opened }
    }

    fn with<T>(&self, target: &Arc<Target>, act: impl FnOnce(&mut Connections) -> T) -> T {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        match targets.get_mut(target) {
            Some(connections) => act(connections),
            None => act(targets.entry(target.clone()).or_default()),
        }
    }

    /// Returns a pooled connection.
    pub(crate) fn reuse(&self, target: &Arc<Target>) -> Option<Lease> {
        self.with(target, |connections| {
            connections.shared().or_else(|| connections.idle().map(Lease::Http1))
        })
    }

    /// Opens a connection.
    pub(crate) async fn open(
        &self,
        target: &Arc<Target>,
        dialer: Dialer,
    ) -> Result<Lease, DialError> {
        let Dialled { stream, http2 } = dialer.dial(target, Protocols::Any).await?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        if http2 {
            return self.open_shared(target, stream).await;
        }
        Ok(Lease::Http1(Connection::new(stream)))
    }

    /// Opens an HTTP/1.1 connection.
    pub(crate) async fn open_http1(
        &self,
        target: &Target,
        dialer: Dialer,
    ) -> Result<Lease, DialError> {
        let Dialled { stream, .. } = dialer.dial(target, Protocols::Http1).await?;
        Ok(Lease::Http1(Connection::new(stream)))
    }

    /// Opens a connection that an upgrade may take over.
    pub(crate) async fn open_alone(
        &self,
        target: &Target,
        dialer: Dialer,
    ) -> Result<Lease, DialError> {
        let Dialled { stream, .. } = dialer.dial(target, Protocols::Http1).await?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Lease::Alone(handshake(target, stream).await?))
    }

    async fn open_shared(
        &self,
        target: &Arc<Target>,
        stream: super::dial::Stream,
    ) -> Result<Lease, DialError> {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20))
            .keep_alive_while_idle(false)
            .max_header_list_size(crate::limits::HEADERS_AS_U32)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| DialError::Handshake(target.url(), error))?;
        tokio::spawn(connection);
        let shared = Shared { sender, streams: Arc::new(()) };
        let lease = Lease::Http2(shared.sender.clone(), shared.streams.clone());
        self.with(target, |connections| connections.shared.push(shared));
        Ok(lease)
    }

    /// Returns a connection to the pool after its response is complete.
    pub(crate) fn give_back(&self, target: &Arc<Target>, connection: Connection) {
        self.with(target, |connections| {
            if connections.idle.len() < KEPT {
                connections.idle.push((connection, Instant::now()));
            }
        });
    }

    /// Closes expired connections. Returns the number of remaining ones.
    pub(crate) fn sweep(&self) -> usize {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.retain(|_, connections| {
            connections
                .idle
                .retain_mut(|(connection, since)| since.elapsed() < IDLE && connection.is_quiet());
            connections.shared.retain(|shared| !shared.sender.is_closed());
            !connections.idle.is_empty() || !connections.shared.is_empty()
        });
        targets.values().map(|connections| connections.idle.len() + connections.shared.len()).sum()
    }
}

impl Connections {
    fn idle(&mut self) -> Option<Connection> {
        while let Some((mut connection, since)) = self.idle.pop() {
            if since.elapsed() < IDLE && connection.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    fn shared(&mut self) -> Option<Lease> {
        self.shared.retain(|shared| !shared.sender.is_closed());
        let free =
            self.shared.iter().find(|shared| Arc::strong_count(&shared.streams) <= STREAMS)?;
        Some(Lease::Http2(free.sender.clone(), free.streams.clone()))
    }
}

async fn handshake(
    target: &Target,
    stream: super::dial::Stream,
) -> Result<http1::SendRequest<Upload>, DialError> {
    let (sender, connection) = http1::Builder::new()
        .max_header_size(crate::limits::HEADERS)
        .max_buf_size(crate::limits::BUFFER)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| DialError::Handshake(target.url(), error))?;
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}

impl Lease {
    /// Sends a request and waits for the head of the response.
    pub(crate) async fn send(self, request: Request<Upload>) -> Result<Response<Reply>, NotSent> {
        let (sent, streams) = match self {
            Self::Http1(connection) => {
                let answer = connection.send(request).await?;
                return Ok(answer.map(|body| Reply::Http1(Box::new(body))));
            }
            Self::Http2(mut sender, streams) => {
                (sender.try_send_request(request).await, Some(streams))
            }
            Self::Alone(mut sender) => (sender.try_send_request(request).await, None),
        };
        match sent {
            Ok(answer) => Ok(answer.map(|body| match streams {
                Some(streams) => Reply::Http2(body, streams),
                None => Reply::Alone(body),
            })),
            Err(mut error) => Err(match error.take_message() {
                Some(request) => NotSent::Unused(Box::new(request)),
                None => NotSent::Failed(error.into_error().into()),
            }),
        }
    }

    /// Returns true for HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(..))
    }
}
