//! Listeners: opened by the proxy, or passed by a sandbox.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::{socket_acceptconn, socket_domain};
use rustix::net::{AddressFamily, SocketType};
use tokio::net::{TcpListener, UnixListener};

use crate::accept::{Accepted, Endpoint, Socket, Workers};

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Adopts a descriptor, if it is a listening stream socket.
    pub(crate) fn adopt(fd: OwnedFd) -> io::Result<Self> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
        let kind = rustix::net::sockopt::socket_type(fd.as_fd())?;
        if kind != SocketType::STREAM || !socket_acceptconn(fd.as_fd())? {
            return Err(wrong("the descriptor is not a listening stream socket"));
        }
        match socket_domain(fd.as_fd())? {
            AddressFamily::INET | AddressFamily::INET6 => {
                let listener = std::net::TcpListener::from(fd);
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(TcpListener::from_std(listener)?))
            }
            AddressFamily::UNIX => {
                let listener = std::os::unix::net::UnixListener::from(fd);
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(UnixListener::from_std(listener)?))
            }
            _ => Err(wrong("unsupported socket family")),
        }
    }

    async fn accept(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(listener) => Socket::Tcp(listener.accept().await?.0.into_std()?),
            Self::Unix(listener) => Socket::Unix(listener.accept().await?.0.into_std()?),
        })
    }
}

/// Accepts connections for as long as it is polled.
pub(crate) async fn serve(listener: Listener, endpoint: Arc<Endpoint>, workers: Arc<Workers>) {
    /// Wait when out of descriptors. Pending connections keep their place in the backlog.
    const PAUSE: Duration = Duration::from_millis(50);
    loop {
        match listener.accept().await {
            Ok(stream) => {
                // A connection above the limit is closed immediately.
                if let Some(admission) = endpoint.enter() {
                    workers.serve(Accepted { stream, admission });
                }
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
