//! What a sandbox hands over so that it can get out, and who serves which of its sockets.

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

use super::{Exit, Record};

/// Where a sandbox may go, as it says itself when it attaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// Which hosts.
    pub policy: EgressPolicy,
    /// The first process inside, to tell who asked.
    pub first: i32,
    /// The file that refusals are written to.
    pub record: Option<PathBuf>,
}

impl Egress {
    pub(crate) fn exit(self) -> io::Result<Arc<Exit>> {
        let record = Record::open(self.record.as_deref(), self.first)?;
        Ok(Exit::new(self.policy, record))
    }
}

/// The sockets beside the one of the proxy.
pub(crate) struct Sockets {
    names_by_stream: TcpListener,
    names_by_packet: UdpSocket,
    tls: TcpListener,
    plain: TcpListener,
}

impl Sockets {
    /// In the order in which they are sent: the name server's, then those of HTTPS and HTTP.
    pub(crate) fn adopt(sockets: [OwnedFd; 4]) -> io::Result<Self> {
        let [names_by_stream, names_by_packet, tls, plain] = sockets;
        let packets = StdSocket::from(names_by_packet);
        packets.set_nonblocking(true)?;
        Ok(Self {
            names_by_stream: listener(names_by_stream)?,
            names_by_packet: UdpSocket::from_std(packets)?,
            tls: listener(tls)?,
            plain: listener(plain)?,
        })
    }

    /// Serves all of them for as long as the tasks last.
    pub(crate) fn serve(self, exit: &Arc<Exit>, tasks: &mut JoinSet<()>) {
        let names = Arc::clone(exit);
        tasks.spawn(async move {
            // Ends only with the socket.
            let _ = names.names_by_packet(self.names_by_packet).await;
        });
        tasks.spawn(accept(self.names_by_stream, Arc::clone(exit), |exit, stream| async move {
            exit.names_by_stream(stream).await
        }));
        tasks.spawn(accept(self.tls, Arc::clone(exit), |exit, stream| async move {
            exit.tls(stream).await
        }));
        tasks.spawn(accept(self.plain, Arc::clone(exit), Exit::plain));
    }
}

fn listener(fd: OwnedFd) -> io::Result<TcpListener> {
    let listener = StdListener::from(fd);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Lets connections in; each ends by itself, and all of them with this.
async fn accept<F>(listener: TcpListener, exit: Arc<Exit>, serve: fn(Arc<Exit>, TcpStream) -> F)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    /// Out of descriptors: waiting is all that helps.
    const PAUSE: Duration = Duration::from_millis(50);
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) if open.len() < crate::limits::CONNECTIONS => {
                open.spawn(serve(Arc::clone(&exit), stream));
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
