//! Relay of a connection between a sandbox and a host, after a check of its first bytes.

use std::io;

use sandbox_policy::network::hello::{self, Hello};
use sandbox_policy::network::{HostName, HostPort, Refusal};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::meter::Metered;
use super::{EgressError, EgressProxy};
use crate::limits::HEAD_TIMEOUT;

/// Fatal TLS alert `access_denied` (RFC 8446, 6).
const ACCESS_DENIED: [u8; 7] = [21, 3, 1, 0, 2, 2, 49];

/// Stream to a program inside the sandbox.
pub(super) trait Client: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Client for T {}

impl EgressProxy {
    /// Relays a connection, unless its TLS `ClientHello` names another host than the one that was checked. An allowed
    /// host must not give access to others at the same address (domain fronting).
    pub(super) async fn relay(
        &self,
        mut client: impl Client,
        mut server: Metered,
        target: &HostPort,
        peer: Option<u16>,
    ) -> io::Result<()> {
        let Some(first) = begin(&mut client, &mut server).await? else { return Ok(()) };
        let plain = hello::read(&first) == Hello::Other;
        let refused = same_name(&first, target)
            .and_then(|()| if plain { self.policy.check_tunnel(target) } else { Ok(()) });
        if let Err(refusal) = refused {
            self.refuse(refusal, peer);
            return client.write_all(&ACCESS_DENIED).await;
        }
        self.pass(client, server, &first, target, peer).await
    }

    /// Copies both ways until either side ends or the upload budget is used up.
    async fn pass(
        &self,
        mut client: impl Client,
        mut server: Metered,
        first: &[u8],
        target: &HostPort,
        peer: Option<u16>,
    ) -> io::Result<()> {
        let passed = match server.write_all(first).await {
            Ok(()) => copy_bidirectional(&mut client, &mut server).await.map(drop),
            Err(error) => Err(error),
        };
        if server.over().is_set() {
            self.used_up(target, peer);
        }
        passed
    }

    /// Serves a connection to port 443 of a name that the sandbox's DNS server resolved to the proxy.
    pub(super) async fn tls(&self, mut client: TcpStream) -> io::Result<()> {
        let peer = client.peer_addr().ok().map(|peer| peer.port());
        let mut first = Vec::new();
        let read = timeout(HEAD_TIMEOUT, greeting(&mut client, &mut first));
        let Ok(Ok(Hello::Greeting(Some(host)))) = read.await else {
            return client.write_all(&ACCESS_DENIED).await;
        };
        let target = HostPort { host, port: 443 };
        match self.reach(&target, peer).await {
            Ok(server) => self.pass(client, server, &first, &target, peer).await,
            Err(EgressError::Refused(_)) => client.write_all(&ACCESS_DENIED).await,
            Err(_) => Ok(()),
        }
    }
}

/// Reads until the kind of the first message is known.
async fn greeting(client: &mut (impl AsyncRead + Unpin), first: &mut Vec<u8>) -> io::Result<Hello> {
    loop {
        if client.read_buf(first).await? == 0 {
            return Ok(Hello::Other);
        }
        match hello::read(first) {
            Hello::Incomplete => {}
            hello => return Ok(hello),
        }
    }
}

/// Returns the client's first bytes. Forwards the server's meanwhile, and returns `None` when either side ends.
async fn begin(client: &mut impl Client, server: &mut Metered) -> io::Result<Option<Vec<u8>>> {
    let mut first = Vec::new();
    let mut said = [0; 4096];
    loop {
        tokio::select! {
            read = client.read_buf(&mut first) => match (read?, hello::read(&first)) {
                (0, _) if first.is_empty() => {
                    // The client has closed its sending side and only receives.
                    server.shutdown().await?;
                    return tokio::io::copy(server, client).await.map(|_| None);
                }
                (0, _) => return Ok(Some(first)),
                (_, Hello::Incomplete) => {}
                _ => return Ok(Some(first)),
            },
            read = server.read(&mut said) => match read? {
                0 => return Ok(None),
                length => client.write_all(&said[..length]).await?,
            },
        }
    }
}

/// Checks that a `ClientHello`, if there is one, names the host that was connected to. Connections to an address are
/// exempt, because the policy allowed the address itself.
fn same_name(first: &[u8], target: &HostPort) -> Result<(), Refusal> {
    let HostName::Dns(name) = &target.host else { return Ok(()) };
    let named = match hello::read(first) {
        Hello::Other => return Ok(()),
        Hello::Greeting(Some(host)) if host == target.host => return Ok(()),
        Hello::Greeting(Some(host)) => format!("the server `{host}`"),
        Hello::Greeting(None) => "no server".to_owned(),
        Hello::Incomplete | Hello::Broken => "nothing that can be read".to_owned(),
    };
    Err(Refusal {
        host: name.clone(),
        port: Some(target.port),
        rule: format!(
            "the TLS ClientHello names {named}, but the connection was opened for `{name}`"
        ),
        allow_with: None,
    })
}
