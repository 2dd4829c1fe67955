//! Egress sockets of a sandbox, and the tasks that serve them.

use std::io;
use std::net::{TcpListener as StdListener, UdpSocket as StdSocket};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandbox_policy::network::EgressPolicy;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::{EgressProxy, Record};

/// Egress of a sandbox, as its attach request describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// Allowed hosts.
    pub policy: EgressPolicy,
    /// First process of the sandbox, to find the process behind a refused connection.
    pub first: i32,
    /// File for refusals.
    pub record: Option<PathBuf>,
}

impl Egress {
    pub(crate) fn open(self) -> io::Result<Arc<EgressProxy>> {
        let record = Record::open(self.record.as_deref(), self.first)?;
        Ok(EgressProxy::new(self.policy, record))
    }
}

/// Egress sockets that a sandbox passes along with its proxy listener.
pub(crate) struct Sockets {
    dns_over_tcp: TcpListener,
    dns_over_udp: UdpSocket,
    tls: TcpListener,
    plain: TcpListener,
}

impl Sockets {
    /// Adopts the sockets in the order in which they are sent: DNS over TCP and UDP, HTTPS, HTTP.
    pub(crate) fn adopt(sockets: [OwnedFd; 4]) -> io::Result<Self> {
        let [dns_over_tcp, dns_over_udp, tls, plain] = sockets;
        let packets = StdSocket::from(dns_over_udp);
        packets.set_nonblocking(true)?;
        Ok(Self {
            dns_over_tcp: listener(dns_over_tcp)?,
            dns_over_udp: UdpSocket::from_std(packets)?,
            tls: listener(tls)?,
            plain: listener(plain)?,
        })
    }

    /// Spawns tasks that serve all sockets.
    pub(crate) fn serve(self, egress: &Arc<EgressProxy>, tasks: &mut JoinSet<()>) {
        let dns = Arc::clone(egress);
        tasks.spawn(async move {
            // Returns only when the socket fails.
            let _ = dns.dns_over_udp(self.dns_over_udp).await;
        });
        tasks.spawn(accept(self.dns_over_tcp, Arc::clone(egress), |egress, stream| async move {
            egress.dns_over_tcp(stream).await
        }));
        tasks.spawn(accept(self.tls, Arc::clone(egress), |egress, stream| async move {
            egress.tls(stream).await
        }));
        tasks.spawn(accept(self.plain, Arc::clone(egress), EgressProxy::plain));
    }
}

fn listener(fd: OwnedFd) -> io::Result<TcpListener> {
    let listener = StdListener::from(fd);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts and serves connections. Aborting the task closes them all.
async fn accept<F>(
    listener: TcpListener,
    egress: Arc<EgressProxy>,
    serve: fn(Arc<EgressProxy>, TcpStream) -> F,
) where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    /// Wait when out of descriptors. Other connections have to close first.
    const PAUSE: Duration = Duration::from_millis(50);
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) if open.len() < crate::limits::CONNECTIONS => {
                open.spawn(serve(Arc::clone(&egress), stream));
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
