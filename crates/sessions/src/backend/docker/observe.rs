//! State of a session's container, as the engine reports it.

use std::collections::HashMap;

use bollard::models::{ContainerStateStatusEnum, ContainerSummaryStateEnum};
use bollard::query_parameters::ListContainersOptionsBuilder;

use super::files::Facts;
use super::names::{self, PREFIX};
use super::{Docker, render};
use crate::backend::{AgentStatus, BackendError, Observed};
use crate::session::{Session, State, Wanted};

impl Docker {
    pub(super) fn observe_container(&self, session: &Session) -> Result<Observed, BackendError> {
        let gone = gone(session);
        let found = match self.inspect(&names::container(session)) {
            Ok(found) => found,
            Err(error) if error.code == "engine_unreachable" || error.code == "no_engine" => {
                return Ok(without_engine(session));
            }
            Err(error) => return Err(error),
        };
        let restarts = found.as_ref().and_then(|found| found.restart_count);
        let Some(state) = found.and_then(|found| found.state) else { return Ok(gone) };
        let pid = state.pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0);
        let word = match state.status {
            Some(ContainerStateStatusEnum::RUNNING) => State::Running,
            Some(ContainerStateStatusEnum::PAUSED) => State::Suspended,
            Some(ContainerStateStatusEnum::RESTARTING) => State::Starting,
            _ => return Ok(gone),
        };
        let handle = Some(format!("container {}", names::container(session)));
        let code = state.exit_code.and_then(|code| u8::try_from(code).ok());
        let restarts = restarts.and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        let agent = self.agent(session, word, code).map(|agent| AgentStatus { restarts, ..agent });
        Ok(Observed { state: word, handle, pid, agent })
    }

    /// Observes all sessions with one call, and one more for each that has an agent, because the list contains no exit codes
    /// and restart counts. It contains no pids either, so they are omitted.
    pub(super) fn observe_containers(
        &self,
        sessions: &[&Session],
    ) -> Result<Vec<Observed>, BackendError> {
        let Some(found) = self.own_containers()? else {
            return Ok(sessions.iter().map(|session| without_engine(session)).collect());
        };
        let seen = |session: &&Session| {
            let is_there = found.contains_key(&names::container(session));
            if is_there && Facts::read(&self.dir(session)).is_ok_and(|facts| facts.agent) {
                return self.observe_container(session);
            }
            let state = match found.get(&names::container(session)) {
                Some(ContainerSummaryStateEnum::RUNNING) => State::Running,
                Some(ContainerSummaryStateEnum::PAUSED) => State::Suspended,
                Some(ContainerSummaryStateEnum::RESTARTING) => State::Starting,
                _ => return Ok(gone(session)),
            };
            let handle = Some(format!("container {}", names::container(session)));
            Ok(Observed { handle, ..Observed::only(state) })
        };
        sessions.iter().map(seen).collect()
    }

    /// Returns the state of the agent, which starts and ends with the container.
    fn agent(&self, session: &Session, state: State, code: Option<u8>) -> Option<AgentStatus> {
        Facts::read(&self.dir(session)).ok().filter(|facts| facts.agent)?;
        let runs = matches!(state, State::Running | State::Suspended);
        Some(if runs { AgentStatus::running() } else { AgentStatus::ended(code) })
    }

    /// Returns a hash of the data directory, because several of them may share an engine.
    pub(super) fn data_dir_hash(&self) -> String {
        use sha2::{Digest, Sha256};
        use std::os::unix::ffi::OsStrExt;
        sandbox_linux::hex::encode(
            &Sha256::digest(self.data_dir.path().as_os_str().as_bytes())[..8],
        )
    }

    /// Returns the label filter for all resources of this data directory.
    pub(super) fn mark(&self) -> HashMap<String, Vec<String>> {
        let label = format!("{}={}", render::STATE, self.data_dir_hash());
        HashMap::from([("label".to_owned(), vec![label])])
    }

    /// Returns the containers of this data directory by name. Without an engine there are none.
    pub(super) fn own_containers(
        &self,
    ) -> Result<Option<HashMap<String, ContainerSummaryStateEnum>>, BackendError> {
        let Some(engine) = self.engine_if_any()? else { return Ok(None) };
        let options =
            ListContainersOptionsBuilder::default().all(true).filters(&self.mark()).build();
        let found =
            engine.call("list its containers", engine.docker.list_containers(Some(options)))?;
        let own = found.into_iter().filter_map(|found| {
            let id = found.labels.as_ref()?.get(render::SESSION)?.clone();
            let name = found.names?.first()?.trim_start_matches('/').to_owned();
            (name == format!("{PREFIX}{id}")).then_some((name, found.state?))
        });
        Ok(Some(own.collect()))
    }
}

fn gone(session: &Session) -> Observed {
    Observed::only(if session.wanted == Wanted::Up { State::Killed } else { State::Stopped })
}

/// Returns the state of a session when the engine is unreachable. Listings still work then.
fn without_engine(session: &Session) -> Observed {
    Observed { handle: Some("no engine".into()), ..gone(session) }
}
