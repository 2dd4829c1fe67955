//! From a name to a connection: allowed or not, resolved once, every address looked at.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use sandbox_policy::network::{HostName, HostPort};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::meter::Metered;
use super::{Exit, Stop};
use crate::limits::CONNECT_TIMEOUT;

/// One address that swallows packets does not use up the time of all.
const EACH: Duration = Duration::from_secs(5);

impl Exit {
    /// A connection to a host, if it may be had. `peer` is the port that the asking program has.
    pub(super) async fn reach(&self, asked: &HostPort, peer: Option<u16>) -> Result<Metered, Stop> {
        self.policy.check(asked).map_err(|refusal| self.refuse(refusal, peer))?;
        let budget = self.budget(asked).cloned();
        if budget.as_ref().is_some_and(|budget| budget.is_used_up()) {
            return Err(self.used_up(asked, peer));
        }
        let late = |_| Stop::Unreachable(asked.clone(), io::ErrorKind::TimedOut.into());
        let stream = timeout(CONNECT_TIMEOUT, self.dial(asked, peer)).await.map_err(late)??;
        Ok(Metered::new(stream, budget))
    }

    /// Puts on record that no more is sent to a host.
    pub(super) fn used_up(&self, asked: &HostPort, peer: Option<u16>) -> Stop {
        self.refuse(self.policy.used_up(asked), peer)
    }

    async fn dial(&self, asked: &HostPort, peer: Option<u16>) -> Result<TcpStream, Stop> {
        let failed = |error| Stop::Unreachable(asked.clone(), error);
        let found = resolve(asked).await.map_err(failed)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let mut refused = None;
        for address in found {
            if let Err(refusal) = self.policy.check_address(asked, address.ip()) {
                refused.get_or_insert(refusal);
                continue;
            }
            // What was looked at is what is dialled: nobody resolves the name a second time.
            match timeout(EACH, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        match refused {
            Some(refusal) => Err(self.refuse(refusal, peer)),
            None => Err(failed(last)),
        }
    }
}

async fn resolve(asked: &HostPort) -> io::Result<Vec<SocketAddr>> {
    match &asked.host {
        HostName::Ip(address) => Ok(vec![SocketAddr::new(*address, asked.port)]),
        // As any program on this machine would: with its hosts file, which knows no dot at the end.
        HostName::Dns(name) => {
            Ok(tokio::net::lookup_host((name.as_str(), asked.port)).await?.collect())
        }
    }
}
