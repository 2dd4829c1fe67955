//! Egress of a sandbox by host name: `CONNECT`, absolute-form requests and SOCKS 5. For programs without proxy support,
//! there are listeners on the HTTP and HTTPS ports and a DNS server. All of them follow one decision: the name is
//! allowed, it is resolved once, each address is checked, and that address is dialled.

mod dial;
mod http;
mod meter;
mod dns;
mod open;
mod record;
mod relay;
mod socks;

use std::sync::Arc;

use sandbox_policy::network::{EgressPolicy, HostPort, Refusal, UploadLimit};
use thiserror::Error;

pub(crate) use http::is_for_egress;
use meter::Budget;
pub use open::Egress;
pub(crate) use open::Sockets;
use record::Record;
pub(crate) use socks::VERSION as SOCKS;

/// Egress of one sandbox.
#[derive(Debug)]
pub(crate) struct EgressProxy {
    policy: EgressPolicy,
    /// Remaining upload budget of each `allowed_hosts` entry. Empty without a limit.
    budgets: Vec<Arc<Budget>>,
    record: Record,
}

/// Failure to connect to a host.
#[derive(Debug, Error)]
pub(crate) enum EgressError {
    /// The policy refused it.
    #[error("{0}")]
    Refused(Refusal),
    /// The host does not respond.
    #[error("cannot reach {0}: {1}")]
    Unreachable(HostPort, std::io::Error),
    /// The request is invalid.
    #[error("{0}")]
    Malformed(String),
}

impl EgressProxy {
    /// Creates the egress for a policy. Refusals are recorded.
    fn new(policy: EgressPolicy, record: Record) -> Arc<Self> {
        let budget = |limit: &UploadLimit| Budget::new(limit.bytes);
        let each = policy.allowed.iter().filter_map(|_| policy.upload_limit.as_ref().map(budget));
        Arc::new(Self { budgets: each.collect(), policy, record })
    }

    /// Returns the upload budget for a host. All hosts of an entry share it, however many names they have.
    fn budget(&self, target: &HostPort) -> Option<&Arc<Budget>> {
        self.budgets.get(self.policy.allowing(target)?)
    }

    /// Records a refusal and returns it.
    fn refuse(&self, refusal: Refusal, peer: Option<u16>) -> EgressError {
        self.record.write(&refusal, peer);
        EgressError::Refused(refusal)
    }
}
