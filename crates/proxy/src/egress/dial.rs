//! Connections to hosts: checks the name, resolves it once, and checks each address before dialling it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use sandbox_policy::network::{HostName, HostPort};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::meter::Metered;
use super::{EgressError, EgressProxy};
use crate::limits::CONNECT_TIMEOUT;

/// Timeout for one address, so that an unresponsive one does not use up the whole time.
const EACH: Duration = Duration::from_secs(5);

impl EgressProxy {
    /// Connects to a host if the policy allows it. `peer` is the client's port.
    pub(super) async fn reach(
        &self,
        target: &HostPort,
        peer: Option<u16>,
    ) -> Result<Metered, EgressError> {
        self.policy.check(target).map_err(|refusal| self.refuse(refusal, peer))?;
        let budget = self.budget(target).cloned();
        if budget.as_ref().is_some_and(|budget| budget.is_used_up()) {
            return Err(self.used_up(target, peer));
        }
        let late = |_| EgressError::Unreachable(target.clone(), io::ErrorKind::TimedOut.into());
        let stream = timeout(CONNECT_TIMEOUT, self.dial(target, peer)).await.map_err(late)??;
        Ok(Metered::new(stream, budget))
    }

    /// Records that the upload budget for a host is used up.
    pub(super) fn used_up(&self, target: &HostPort, peer: Option<u16>) -> EgressError {
        self.refuse(self.policy.used_up(target), peer)
    }

    async fn dial(&self, target: &HostPort, peer: Option<u16>) -> Result<TcpStream, EgressError> {
        let failed = |error| EgressError::Unreachable(target.clone(), error);
        let found = resolve(target).await.map_err(failed)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let mut refused = None;
        for address in found {
            if let Err(refusal) = self.policy.check_address(target, address.ip()) {
                refused.get_or_insert(refusal);
                continue;
            }
            // Dial the checked address. Resolving again could return a different one (DNS rebinding).
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

async fn resolve(target: &HostPort) -> io::Result<Vec<SocketAddr>> {
    match &target.host {
        HostName::Ip(address) => Ok(vec![SocketAddr::new(*address, target.port)]),
        // Resolve like any program on this host, with its hosts file. That file has names without a trailing dot.
        HostName::Dns(name) => {
            Ok(tokio::net::lookup_host((name.as_str(), target.port)).await?.collect())
        }
    }
}
