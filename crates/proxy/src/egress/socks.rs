//! SOCKS 5 (RFC 1928): `CONNECT` without authentication, to allowed names and addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sandbox_policy::network::{HostName, HostPort};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{EgressError, EgressProxy};
use crate::limits::HEAD_TIMEOUT;

/// Protocol version, the first byte that a client sends.
pub(crate) const VERSION: u8 = 5;

/// Reply code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Done = 0,
    Refused = 2,
    Unreachable = 4,
    NoSuchCommand = 7,
    NoSuchAddress = 8,
}

impl EgressProxy {
    /// Serves a SOCKS client.
    pub(crate) async fn socks(&self, mut client: TcpStream) -> io::Result<()> {
        let peer = client.peer_addr().ok().map(|peer| peer.port());
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let target = match timeout(HEAD_TIMEOUT, request(&mut client)).await.map_err(late)?? {
            Ok(target) => target,
            Err(reply) => return answer(&mut client, reply).await,
        };
        match self.reach(&target, peer).await {
            Ok(server) => {
                answer(&mut client, Reply::Done).await?;
                self.relay(client, server, &target, peer).await
            }
            Err(EgressError::Unreachable(..)) => answer(&mut client, Reply::Unreachable).await,
            Err(_) => answer(&mut client, Reply::Refused).await,
        }
    }
}

async fn answer(client: &mut TcpStream, reply: Reply) -> io::Result<()> {
    client.write_all(&[VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await
}

/// Reads the greeting and the request.
async fn request(client: &mut TcpStream) -> io::Result<Result<HostPort, Reply>> {
    let [_, count] = read(client).await?;
    let mut methods = vec![0; usize::from(count)];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&0) {
        client.write_all(&[VERSION, 0xff]).await?;
        return Err(io::ErrorKind::Unsupported.into());
    }
    client.write_all(&[VERSION, 0]).await?;
    let [version, command, _, kind] = read(client).await?;
    let host = match kind {
        1 => Ok(HostName::Ip(IpAddr::V4(Ipv4Addr::from(read::<4>(client).await?)))),
        4 => Ok(HostName::Ip(IpAddr::V6(Ipv6Addr::from(read::<16>(client).await?)).to_canonical())),
        3 => name(client).await?,
        _ => return Ok(Err(Reply::NoSuchAddress)),
    };
    let port = u16::from_be_bytes(read(client).await?);
    if version != VERSION || command != 1 {
        return Ok(Err(Reply::NoSuchCommand));
    }
    Ok(host.map(|host| HostPort { host, port }))
}

async fn read<const N: usize>(client: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await.map(|_| bytes)
}

/// Reads a host name. All bytes must be valid, because a resolver might stop at a NUL.
async fn name(client: &mut TcpStream) -> io::Result<Result<HostName, Reply>> {
    let [length] = read(client).await?;
    let mut bytes = vec![0; usize::from(length)];
    client.read_exact(&mut bytes).await?;
    let host = String::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    Ok(host.ok_or(Reply::Refused))
}
