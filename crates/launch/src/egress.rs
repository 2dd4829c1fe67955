//! Connection of a run to the proxy. Starts the proxy if necessary and attaches it to the sandbox's sockets.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sandbox_core::plan::Plan;
use sandbox_core::run::{AttachError, Gateway};
use sandbox_linux::error::chain;
use sandbox_policy::Host;
use sandbox_policy::network::EgressPolicy;
use sandbox_policy::network::blocked::{Journal, Run};
use sandbox_protocol::Hint;
use sandbox_proxy::attach::{ATTACHED, Attach, Egress};
use sandbox_proxy::client::{Attachment, Client, ClientError};
use sandbox_proxy::dirs::ProxyDirs;
use sandbox_proxy::token::Token;
use thiserror::Error;

use crate::credentials::Credentials;
use crate::events::Events;

/// Failure to connect a run to the proxy.
#[derive(Debug, Error)]
pub enum ProxyError {
    /// There is no directory for the proxy's files.
    #[error("there is no home directory")]
    NoHome,
    /// The proxy does not start or respond.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The state directory is not usable.
    #[error(transparent)]
    Journal(io::Error),
}

impl Hint for ProxyError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome => Some("set `HOME`".into()),
            Self::Client(error) => error.hint(),
            Self::Journal(_) => Some("check that you own the state directory".into()),
        }
    }
}

/// Connection of a run to the proxy, and the journal of what it refuses.
pub(crate) struct ProxyGateway {
    client: Client,
    program: PathBuf,
    id: String,
    policy: Option<EgressPolicy>,
    journal: Journal,
    credentials: Credentials,
    /// Reason why the run stopped trying to attach.
    lost: Option<String>,
    /// Reason why the last attempt to attach failed.
    failed: Option<String>,
}

/// Longest wait for the proxy to start, or to notice that an earlier attachment of this run has ended.
const PATIENCE: Duration = Duration::from_secs(5);

impl ProxyGateway {
    /// Starts the proxy for a plan that needs one, before anything else runs.
    pub(crate) fn of(
        plan: &Plan,
        credentials: Credentials,
        host: &Host,
        started: (i64, u32),
    ) -> Result<Option<Self>, ProxyError> {
        if plan.egress.is_none() && credentials.sessions.is_empty() {
            return Ok(None);
        }
        let client = Client::new(&ProxyDirs::of(host).ok_or(ProxyError::NoHome)?);
        client.ensure(&host.exe)?;
        let id = Token::generate().map_err(ProxyError::Journal)?.hash().short();
        let program = plan.command.first().map(|word| word.to_string_lossy().into_owned());
        let run = Run {
            started: u64::try_from(started.0).unwrap_or(0),
            cwd: plan.config.cwd.clone(),
            program: program.unwrap_or_default(),
        };
        let journal = Journal::begin(host, &id, &run, started.1).map_err(ProxyError::Journal)?;
        Ok(Some(Self {
            client,
            program: host.exe.clone(),
            id,
            policy: plan.egress.clone(),
            journal,
            credentials,
            lost: None,
            failed: None,
        }))
    }

    /// Reports refused connections, and returns their number.
    pub(crate) fn report(&self, events: &mut dyn Events) -> usize {
        let blocked = self.journal.read().map(|(_, blocked)| blocked).unwrap_or_default();
        if !blocked.is_empty() {
            events.refused(&blocked);
        }
        if let Some(why) = &self.lost {
            events.proxy_lost(why);
        }
        blocked.len()
    }

    /// Attaches to the proxy. Starts one if none is reachable.
    fn try_attach(&self, attach: &Attach, sockets: &[OwnedFd]) -> Result<Attachment, ClientError> {
        let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        let end = Instant::now() + PATIENCE;
        loop {
            match self.client.attach(attach, &sockets) {
                Err(ClientError::Unreachable(..)) if Instant::now() < end => {
                    self.client.ensure(&self.program)?;
                }
                Err(ClientError::Refused { code, .. })
                    if code == ATTACHED && Instant::now() < end => {}
                other => return other,
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Gateway for ProxyGateway {
    fn sockets(&mut self) -> Vec<OwnedFd> {
        let listener = self.credentials.listener.as_ref();
        listener.and_then(|listener| listener.try_clone().ok()).into_iter().collect()
    }

    fn attach(&mut self, first: i32, sockets: &[OwnedFd]) -> Result<OwnedFd, AttachError> {
        let record = Some(self.journal.path().to_owned());
        let egress = self.policy.clone().map(|policy| Egress { policy, first, record });
        let sessions = self.credentials.sessions.clone();
        let attach = Attach { sandbox_id: self.id.clone(), egress, sessions };
        let attached = self.try_attach(&attach, sockets).map_err(|error| {
            self.failed = Some(chain(&error));
            AttachError { hint: error.hint(), source: error.into() }
        })?;
        self.failed = None;
        // Closing the last copy of this descriptor ends the attachment.
        Ok(attached.as_fd().try_clone_to_owned()?)
    }

    fn give_up(&mut self) {
        self.credentials.listener = None;
        self.lost = self.failed.take();
    }
}
