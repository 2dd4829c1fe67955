//! The way out of a sandbox that reaches hosts by name: the user's proxy, started where it does not run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use sandbox_core::Host;
use sandbox_core::exec::Gateway;
use sandbox_core::network::EgressPolicy;
use sandbox_core::network::blocked::{Blocked, Journal, Run};
use sandbox_core::plan::Plan;
use sandbox_proxy::attach::{Attach, Egress};
use sandbox_proxy::client::{Client, ClientError};
use sandbox_proxy::place::Place;
use sandbox_proxy::token::Token;

use super::credentials::Credentials;
use crate::run::Failed;
use crate::ui::{Stdio, Tone, visible};

/// What a run needs to get out, and where refusals are written.
pub(crate) struct Way {
    client: Client,
    program: PathBuf,
    id: String,
    policy: Option<EgressPolicy>,
    journal: Journal,
    credentials: Credentials,
}

impl Way {
    /// The way out of a plan, if it has one. A proxy that does not start is told before anything runs.
    pub(crate) fn of(
        plan: &Plan,
        credentials: Credentials,
        host: &Host,
        started: (i64, u32),
    ) -> Result<Option<Self>, Failed> {
        if plan.egress.is_none() && credentials.sessions.is_empty() {
            return Ok(None);
        }
        let no_home = || {
            Failed::new(io::Error::other("there is no home directory"), Some("set `HOME`".into()))
        };
        let client = Client::new(&Place::of(host).ok_or_else(no_home)?);
        client.ensure(&host.exe).map_err(|error| {
            let hint = error.hint();
            Failed::new(error, hint)
        })?;
        let failed =
            |error: io::Error| Failed::new(error, Some("is the state directory yours?".into()));
        let id = Token::generate().map_err(failed)?.hash().short();
        let program = plan.command.first().map(|word| word.to_string_lossy().into_owned());
        let run = Run {
            started: u64::try_from(started.0).unwrap_or(0),
            cwd: plan.config.cwd.clone(),
            program: program.unwrap_or_default(),
        };
        let journal = Journal::begin(host, &id, &run, started.1).map_err(failed)?;
        let policy = plan.egress.clone();
        Ok(Some(Self { client, program: host.exe.clone(), id, policy, journal, credentials }))
    }

    /// What was refused, told in one line; the number of refusals.
    pub(crate) fn tell(&self, io: &mut Stdio<'_>) -> usize {
        let blocked = self.journal.read().map(|(_, blocked)| blocked).unwrap_or_default();
        if !blocked.is_empty() {
            let hosts = hosts(&blocked);
            let text = format!("refused: {hosts}; `agent-sandbox blocked` says why");
            io.labelled(Tone::Warning, "note", &visible(&text));
        }
        blocked.len()
    }
}

/// The first few hosts, and how many more.
fn hosts(blocked: &[Blocked]) -> String {
    const SHOWN: usize = 3;
    let mut names: Vec<&str> =
        blocked.iter().map(|blocked| blocked.refusal.host.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let rest = names.len().saturating_sub(SHOWN);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    names.truncate(SHOWN);
    format!("{}{more}", names.join(", "))
}

impl Gateway for Way {
    fn sockets(&mut self) -> Vec<OwnedFd> {
        let listener = self.credentials.listener.as_ref();
        listener.and_then(|listener| listener.try_clone().ok()).into_iter().collect()
    }

    fn attach(&mut self, first: i32, sockets: &[OwnedFd]) -> io::Result<OwnedFd> {
        let record = Some(self.journal.path().to_owned());
        let egress = self.policy.clone().map(|policy| Egress { policy, first, record });
        let sessions = self.credentials.sessions.clone();
        let attach = Attach { sandbox_id: self.id.clone(), egress, sessions };
        let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        let attached = match self.client.attach(&attach, &sockets) {
            Err(ClientError::Unreachable(..)) => {
                self.client.ensure(&self.program).map_err(io::Error::other)?;
                self.client.attach(&attach, &sockets)
            }
            other => other,
        };
        // The connection is the lifetime: it ends with this descriptor.
        attached.map_err(io::Error::other)?.as_fd().try_clone_to_owned()
    }
}
