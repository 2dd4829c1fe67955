//! The way out of a sandbox, by name: `CONNECT` and absolute requests, SOCKS 5, and for programs that
//! know of no proxy the ports of the web and a name server. One decision for all of them: the name is
//! allowed, what it resolves to is looked at once, and that address is dialled.

mod dial;
mod http;
mod meter;
mod names;
mod open;
mod record;
mod relay;
mod socks;

use std::sync::Arc;

use sandbox_policy::network::{EgressPolicy, HostPort, Refusal, UploadLimit};
use thiserror::Error;

pub(crate) use http::is_for_exit;
use meter::Budget;
pub use open::Egress;
pub(crate) use open::Sockets;
use record::Record;
pub(crate) use socks::VERSION as SOCKS;

/// One sandbox's way out.
#[derive(Debug)]
pub(crate) struct Exit {
    policy: EgressPolicy,
    /// What may still be sent, for each line that allows hosts; none without a limit.
    budgets: Vec<Arc<Budget>>,
    record: Record,
}

/// Why a connection was not made.
#[derive(Debug, Error)]
pub(crate) enum Stop {
    /// It may not be.
    #[error("{0}")]
    Refused(Refusal),
    /// It cannot be.
    #[error("cannot reach {0}: {1}")]
    Unreachable(HostPort, std::io::Error),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Malformed(String),
}

impl Exit {
    /// The way out that a policy allows. Refusals are put on record.
    fn new(policy: EgressPolicy, record: Record) -> Arc<Self> {
        let budget = |limit: &UploadLimit| Budget::new(limit.bytes);
        let each = policy.allowed.iter().filter_map(|_| policy.upload_limit.as_ref().map(budget));
        Arc::new(Self { budgets: each.collect(), policy, record })
    }

    /// What may still be sent to a host: all hosts of a line share it, however many names it has.
    fn budget(&self, asked: &HostPort) -> Option<&Arc<Budget>> {
        self.budgets.get(self.policy.allowing(asked)?)
    }

    /// Puts a refusal on record, and passes it on.
    fn refuse(&self, refusal: Refusal, peer: Option<u16>) -> Stop {
        self.record.write(&refusal, peer);
        Stop::Refused(refusal)
    }
}
