//! Server of a rendezvous socket: checks the peer and the sockets that it passes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use sandbox_protocol::rendezvous::SERVED;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::Rendezvous;
use crate::accept::{Endpoint, Workers};
use crate::data::Scope;
use crate::egress::{Egress, Sockets};
use crate::listen::{self, Listener};

/// Time for a peer to send its sockets.
const PATIENCE: Duration = Duration::from_secs(5);

/// Listens at a path of any length, which `sun_path` would limit (`unix(7)`). All users may connect, but only the owner
/// and the sandbox's first process see the directory.
pub(super) fn socket(path: &Path) -> io::Result<UnixListener> {
    let (dir, name) = path.parent().zip(path.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
    let dir = std::fs::File::open(dir)?;
    let about = dir.metadata()?;
    let ours = std::os::unix::fs::MetadataExt::uid(&about);
    if !about.is_dir() || ours != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "you do not own the directory",
        ));
    }
    let near = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name);
    match std::fs::remove_file(&near) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&near)?;
    std::fs::set_permissions(&near, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Serves one peer at a time, because a sandbox has one first process.
pub(super) async fn serve(
    listener: UnixListener,
    id: String,
    rendezvous: Rendezvous,
    workers: Arc<Workers>,
) {
    loop {
        match listener.accept().await {
            Ok((mut stream, _)) => {
                // Report the error to the peer and keep the socket open.
                if let Err(error) = attend(&mut stream, &id, &rendezvous, &workers).await {
                    let _ = stream.write_all(format!("{error}\n").as_bytes()).await;
                }
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Adopts the listeners and serves them until the connection closes.
async fn attend(
    stream: &mut UnixStream,
    id: &str,
    rendezvous: &Rendezvous,
    workers: &Arc<Workers>,
) -> io::Result<()> {
    let peer = stream.peer_cred()?;
    if peer.uid() != rendezvous.peer {
        return Err(refused("only the first process of the sandbox may attach"));
    }
    let sockets = tokio::time::timeout(PATIENCE, receive(stream)).await??;
    let egress = rendezvous.policy.clone().map(|policy| Egress {
        policy,
        first: peer.pid().unwrap_or(0),
        record: rendezvous.record.clone(),
    });
    let egress = egress.map(Egress::open).transpose()?;
    let mut listeners = JoinSet::new();
    let mut sockets = check(sockets)?.into_iter();
    let inside = Endpoint::with_egress(Scope::Sandbox(id.to_owned()), egress.clone());
    let first = sockets.next().ok_or_else(|| refused("the message contains no listener"))?;
    listeners.spawn(listen::serve(Listener::adopt(first)?, inside, workers.clone()));
    let others: Result<[OwnedFd; 4], _> = sockets.collect::<Vec<_>>().try_into();
    if let (Some(egress), Ok(others)) = (&egress, others) {
        Sockets::adopt(others)?.serve(egress, &mut listeners);
    }
    stream.write_all(SERVED).await?;
    // The peer sends nothing more. The end of the stream ends the attachment.
    let mut rest = [0; 64];
    while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
    Ok(())
}

async fn receive(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    loop {
        stream.readable().await?;
        let read =
            stream.try_io(Interest::READABLE, || sandbox_linux::channel::receive(stream.as_fd()));
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return Ok(other?.ok_or(io::ErrorKind::UnexpectedEof)?.attached),
        }
    }
}

/// Checks that the sockets are listening TCP sockets, with a UDP socket at the index for DNS.
fn check(sockets: Vec<OwnedFd>) -> io::Result<Vec<OwnedFd>> {
    const PACKETS: usize = 2;
    if !matches!(sockets.len(), 1 | 5) {
        return Err(refused("expected one or five sockets"));
    }
    for (index, socket) in sockets.iter().enumerate() {
        let family = socket_domain(socket)?;
        let kind = socket_type(socket)?;
        let right = if index == PACKETS {
            kind == SocketType::DGRAM
        } else {
            kind == SocketType::STREAM && socket_acceptconn(socket)?
        };
        if !right || !matches!(family, AddressFamily::INET | AddressFamily::INET6) {
            return Err(refused("expected a TCP listener or the UDP socket for DNS"));
        }
    }
    Ok(sockets)
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_accepts_only_listeners() {
        let tcp = || OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let udp = || OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let connected = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            OwnedFd::from(std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap())
        };
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let unix = || {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("s");
            OwnedFd::from(std::os::unix::net::UnixListener::bind(path).unwrap())
        };
        assert!(check(vec![tcp()]).is_ok());
        assert!(check(vec![tcp(), tcp(), udp(), tcp(), tcp()]).is_ok());
        for (why, sockets) in [
            ("nothing", vec![]),
            ("a file", vec![file()]),
            ("a connection", vec![connected()]),
            ("packets first", vec![udp()]),
            ("another family", vec![unix()]),
            ("two", vec![tcp(), tcp()]),
            ("streams for packets", vec![tcp(), tcp(), tcp(), tcp(), tcp()]),
        ] {
            assert!(check(sockets).is_err(), "{why}");
        }
    }
}
