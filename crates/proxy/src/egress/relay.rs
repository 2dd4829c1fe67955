//! A connection through the sandbox's wall, byte by byte, after a look at how it begins.

use std::io;

use sandbox_policy::network::hello::{self, Hello};
use sandbox_policy::network::{HostName, HostPort, Refusal};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::meter::Metered;
use super::{Exit, Stop};
use crate::limits::HEAD_TIMEOUT;

/// What TLS says to a client that it turns away: a fatal `access_denied`.
const ACCESS_DENIED: [u8; 7] = [21, 3, 1, 0, 2, 2, 49];

/// A stream to a program inside.
pub(super) trait Client: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Client for T {}

impl Exit {
    /// Passes everything on, once it is clear that a TLS greeting names the host that was asked for.
    /// A host that is allowed must not be a door to others that share its address.
    pub(super) async fn relay(
        &self,
        mut client: impl Client,
        mut server: Metered,
        asked: &HostPort,
        peer: Option<u16>,
    ) -> io::Result<()> {
        let Some(first) = begin(&mut client, &mut server).await? else { return Ok(()) };
        let plain = hello::read(&first) == Hello::Other;
        let refused = same_name(&first, asked)
            .and_then(|()| if plain { self.policy.check_tunnel(asked) } else { Ok(()) });
        if let Err(refusal) = refused {
            self.refuse(refusal, peer);
            return client.write_all(&ACCESS_DENIED).await;
        }
        self.pass(client, server, &first, asked, peer).await
    }

    /// Both ways, until either side ends it or no more may be sent.
    async fn pass(
        &self,
        mut client: impl Client,
        mut server: Metered,
        first: &[u8],
        asked: &HostPort,
        peer: Option<u16>,
    ) -> io::Result<()> {
        let passed = match server.write_all(first).await {
            Ok(()) => copy_bidirectional(&mut client, &mut server).await.map(drop),
            Err(error) => Err(error),
        };
        if server.over().is_so() {
            self.used_up(asked, peer);
        }
        passed
    }

    /// A program that connected to port 443 of a name that the name server said is here.
    pub(super) async fn tls(&self, mut client: TcpStream) -> io::Result<()> {
        let peer = client.peer_addr().ok().map(|peer| peer.port());
        let mut first = Vec::new();
        let read = timeout(HEAD_TIMEOUT, greeting(&mut client, &mut first));
        let Ok(Ok(Hello::Greeting(Some(host)))) = read.await else {
            return client.write_all(&ACCESS_DENIED).await;
        };
        let asked = HostPort { host, port: 443 };
        match self.reach(&asked, peer).await {
            Ok(server) => self.pass(client, server, &first, &asked, peer).await,
            Err(Stop::Refused(_)) => client.write_all(&ACCESS_DENIED).await,
            Err(_) => Ok(()),
        }
    }
}

/// Reads until it is clear what the client begins with.
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

/// What the client says first, while the server may speak before it; `None` when either is done.
async fn begin(client: &mut impl Client, server: &mut Metered) -> io::Result<Option<Vec<u8>>> {
    let mut first = Vec::new();
    let mut said = [0; 4096];
    loop {
        tokio::select! {
            read = client.read_buf(&mut first) => match (read?, hello::read(&first)) {
                (0, _) if first.is_empty() => {
                    // It only listens from now on.
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

/// Whether a greeting, if it is one, names the host that the connection was opened for. An address
/// was allowed as such, whatever its server is called.
fn same_name(first: &[u8], asked: &HostPort) -> Result<(), Refusal> {
    let HostName::Dns(name) = &asked.host else { return Ok(()) };
    let named = match hello::read(first) {
        Hello::Other => return Ok(()),
        Hello::Greeting(Some(host)) if host == asked.host => return Ok(()),
        Hello::Greeting(Some(host)) => format!("the server `{host}`"),
        Hello::Greeting(None) => "no server".to_owned(),
        Hello::Incomplete | Hello::Broken => "nothing that can be read".to_owned(),
    };
    Err(Refusal {
        host: name.clone(),
        port: Some(asked.port),
        rule: format!("the TLS greeting names {named}, and the connection was opened for `{name}`"),
        allow_with: None,
    })
}
