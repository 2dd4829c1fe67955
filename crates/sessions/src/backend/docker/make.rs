//! Creation, start, log and removal of containers.

mod log;

use std::error::Error;
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use bollard::query_parameters::{
    ContainerArchiveInfoOptionsBuilder, CreateContainerOptionsBuilder, LogsOptionsBuilder,
    RemoveContainerOptionsBuilder, StopContainerOptionsBuilder,
};
use futures_util::StreamExt;
use sandbox_bridge::process::start_broker;
use sandbox_launch::credentials::{self, CredentialError};
use sandbox_policy::config::Config;
use sandbox_protocol::Hint;
use sandbox_protocol::layout::{RUNTIME_DIR, SEARCH_PATH, session};
use sandbox_protocol::multicall;
use sandbox_protocol::variable::{AGENT_DOOR_ADDRESS, SESSION_ID, SESSION_TOKEN};
use sandbox_proxy::client::Client;
use sandbox_proxy::rendezvous::{NewRendezvous, Rendezvous};
use sandbox_proxy::session::Registration;

use super::engine::{AGAIN, Engine, status};
use super::files::Facts;
use super::plan::Container;
use super::render::{self, Dialect, Marks};
use super::{Docker, files, names, proxy_failed, seccomp};
use crate::backend::{BackendError, Recorder};
use crate::error::ControlError;
use crate::session::Session;
use crate::store::ThingKind;

/// Time limit for PID 1 of a container to start the agent.
const READY: Duration = Duration::from_secs(60);
/// Interval at which the reader of a silent log is checked for still being there.
const PAUSE: Duration = Duration::from_secs(1);
/// Time limit for the engine to free the name of a container that it removes.
const NAME_IS_FREE: Duration = Duration::from_secs(10);
impl Docker {
    pub(super) fn make(
        &self,
        session: &Session,
        config: &Config,
        record: &mut Recorder<'_>,
    ) -> Result<(), ControlError> {
        let plan = self.plan_of(session, config)?;
        let address = address(session, &plan);
        let mut secrets = credentials::for_container(config, address, &self.host)
            .map_err(|error| unavailable(&error))?;
        if plan.proxy.is_some() {
            secrets.env.push((AGENT_DOOR_ADDRESS.into(), address.to_string()));
        }
        let dir = self.dir(session);
        let control = control(session)
            .map_err(|error| BackendError::new("cannot generate the session's token", error))?;
        record.make(ThingKind::Directory, &dir.to_string_lossy(), || {
            files::make(&dir, &plan, &control).map_err(|error| {
                BackendError::file("cannot create the session's directory", &dir, error)
            })
        })?;
        self.create_volumes(session, &plan, record)?;
        if let Some(bridge) = &plan.bridge {
            bridge.write(&dir).map_err(|error| {
                BackendError::file("cannot write the bridge's files", &dir, error)
            })?;
            let facts = Facts::of(&plan);
            if !facts.broker.is_empty() {
                record.make(ThingKind::Broker, session.id.as_str(), || {
                    self.start_broker(session, &facts)
                })?;
            }
            if let Some(key) = &bridge.key {
                self.make_key(session, &plan, key, secrets.ssh_key.as_ref(), record)?;
            }
        }
        if plan.proxy.is_some() {
            record.make(ThingKind::Rendezvous, session.id.as_str(), || {
                self.open_rendezvous(session, &plan, secrets.sessions.clone())
            })?;
        }
        record.make(ThingKind::Container, &names::container(session), || {
            self.create(session, &plan, &secrets.env)
        })?;
        if let Some(bridge) = plan.bridge.as_ref().filter(|bridge| bridge.key.is_some()) {
            let relayed = bridge.relay.is_some();
            let path = plan.env.get("PATH").filter(|_| !relayed).map_or(SEARCH_PATH, |path| path);
            self.check_client(&names::container(session), path)?;
        }
        Ok(())
    }

    /// Checks that the image has an SSH client, before anything runs.
    fn check_client(&self, name: &str, path: &str) -> Result<(), BackendError> {
        let engine = self.engine()?;
        for dir in path.split(':').filter(|dir| !dir.is_empty() && !dir.starts_with(RUNTIME_DIR)) {
            let path = format!("{dir}/ssh");
            let options = ContainerArchiveInfoOptionsBuilder::default().path(&path).build();
            let asked = engine.docker.get_container_archive_info(name, Some(options));
            if engine.find_optional("search the container's file system", asked)?.is_some() {
                return Ok(());
            }
        }
        Err(BackendError::plain("the image has no `ssh`, which host commands over SSH need")
            .code("no_ssh")
            .hint("add `openssh-client` to the image, or remove `host_commands.transport`: the default, a Unix socket, needs no client"))
    }

    /// Starts the broker of host commands, if the session has one and it does not run.
    pub(super) fn start_broker(
        &self,
        session: &Session,
        facts: &Facts,
    ) -> Result<(), BackendError> {
        if facts.broker.is_empty() {
            return Ok(());
        }
        // The audit log outlives the session.
        let audit = self
            .host
            .state_dir()
            .map(|state| state.join("host-commands").join(format!("{}.jsonl", session.id)));
        start_broker(&self.host.exe, &self.dir(session), audit.as_deref())
            .map_err(|error| BackendError::new("cannot start the broker of host commands", error))
    }

    fn dialect(
        &self,
        engine: &Engine,
        session: &Session,
        plan: &Container,
    ) -> Result<Dialect, BackendError> {
        let mut seccomp = seccomp::profile(plan);
        if engine.is_podman()
            && let Some(profile) = &seccomp
        {
            let path = self.dir(session).join("seccomp.json");
            std::fs::write(&path, profile).map_err(|error| {
                BackendError::file("cannot write the seccomp filter", &path, error)
            })?;
            seccomp = Some(path.to_string_lossy().into_owned());
        }
        Ok(Dialect { deeply: engine.reads_only_deeply(), seccomp })
    }

    pub(super) fn create(
        &self,
        session: &Session,
        plan: &Container,
        secrets: &[(String, String)],
    ) -> Result<(), BackendError> {
        let engine = self.engine()?;
        let state = self.data_dir_hash();
        let marks = Marks {
            session: session.id.as_str(),
            policy: &session.policy,
            state: &state,
            owner: self.host.uid,
        };
        let dialect = self.dialect(engine, session, plan)?;
        let body = render::body(plan, &marks, &self.dir(session), secrets, &dialect);
        let name = names::container(session);
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let end = Instant::now() + NAME_IS_FREE;
        loop {
            let made = engine.docker.create_container(Some(options.clone()), body.clone());
            match engine.wait(made) {
                // The engine just finished creating a container for a killed command. It may contain
                // other tokens.
                Err(error) if status(&error) == Some(409) && Instant::now() < end => {
                    self.remove_container(&name)?;
                    std::thread::sleep(AGAIN);
                }
                Err(error) => return Err(creation_failed(error, plan)),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Starts a container and waits until PID 1 has finished its set-up. On failure, the error has its output.
    pub(super) fn start(&self, session: &Session) -> Result<(), BackendError> {
        let engine = self.engine()?;
        let name = names::container(session);
        let since = i32::try_from(sandbox_linux::clock::wall().0).unwrap_or(0);
        engine
            .call("start the container", engine.docker.start_container(&name, None))
            .map_err(explained)?;
        let ready = engine.wait(tokio_timeout(READY, self.await_ready(&name, since)));
        match ready {
            Some(Ok(())) => Ok(()),
            Some(Err(said)) => {
                // The engine would keep restarting it.
                let _ = self.stop(&name);
                Err(BackendError::plain(format!(
                    "session `{}` did not start: {}",
                    session.name,
                    tail(&said)
                ))
                .code("not_started"))
            }
            None => Err(BackendError::plain(format!(
                "session `{}` did not start within {} seconds",
                session.name,
                READY.as_secs()
            ))
            .code("not_started")
            .hint(format!("see its output: docker logs {name}"))),
        }
    }

    /// Follows the output of PID 1 until it reports the end of its set-up. If it ends earlier, returns its output.
    async fn await_ready(&self, name: &str, since: i32) -> Result<(), String> {
        let Some(engine) = self.engine.get() else { return Err(String::new()) };
        let options = LogsOptionsBuilder::default()
            .follow(true)
            .stdout(true)
            .stderr(true)
            .since(since)
            .build();
        let mut logs = engine.docker.logs(name, Some(options));
        let (mut said, lines) = (String::new(), multicall::ready_lines());
        while let Some(Ok(piece)) = logs.next().await {
            said.push_str(&String::from_utf8_lossy(piece.as_ref()));
            if lines.iter().any(|line| said.contains(line)) {
                return Ok(());
            }
        }
        Err(said)
    }

    pub(super) fn stop(&self, name: &str) -> Result<(), BackendError> {
        let engine = self.engine()?;
        let options = StopContainerOptionsBuilder::default().build();
        engine
            .find_optional("stop the container", engine.docker.stop_container(name, Some(options)))
            .map(drop)
    }

    pub(super) fn remove_container(&self, name: &str) -> Result<(), BackendError> {
        self.stop(name)?;
        let engine = self.engine()?;
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let removed = engine.wait(engine.docker.remove_container(name, Some(options)));
        match removed {
            // Already gone, or another process is removing it.
            Err(error) if matches!(status(&error), Some(404 | 409)) => Ok(()),
            Err(error) => Err(BackendError::new("the engine cannot remove the container", error)),
            Ok(()) => Ok(()),
        }
    }

    pub(super) fn proxy(&self) -> Result<Client, BackendError> {
        let dirs = sandbox_proxy::dirs::ProxyDirs::of(&self.host).ok_or_else(|| {
            BackendError::plain("cannot find the home directory").hint("set `HOME`")
        })?;
        Ok(Client::new(&dirs))
    }

    pub(super) fn open_rendezvous(
        &self,
        session: &Session,
        plan: &Container,
        sessions: Vec<Registration>,
    ) -> Result<(), BackendError> {
        let Some(proxy) = &plan.proxy else { return Ok(()) };
        let client = self.proxy()?;
        client.ensure(&self.host.exe).map_err(proxy_failed)?;
        let dir = self.dir(session);
        let new = NewRendezvous {
            rendezvous: Rendezvous {
                path: dir.join(session::RENDEZVOUS_DIR).join(session::RENDEZVOUS_SOCKET),
                peer: proxy.peer,
                policy: proxy.policy.clone(),
                record: Some(dir.join("blocked.jsonl")),
            },
            sessions,
        };
        client.open_rendezvous(session.id.as_str(), &new).map_err(proxy_failed)
    }

    /// Returns the engine, or `None` if there is none: then it has no resources of ours either.
    pub(super) fn engine_if_any(&self) -> Result<Option<&Engine>, BackendError> {
        match self.engine() {
            Ok(engine) => Ok(Some(engine)),
            Err(error) if error.code == "engine_unreachable" || error.code == "no_engine" => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the address at which a container reaches the proxy. On its own loopback that is the usual one. On the host's
/// loopback, which it shares with others, each session has a separate, stable address.
fn address(session: &Session, plan: &Container) -> Ipv4Addr {
    use sha2::{Digest, Sha256};
    if !plan.proxy.as_ref().is_some_and(|proxy| proxy.shared) {
        return Ipv4Addr::LOCALHOST;
    }
    let [first, second, third, ..]: [u8; 32] = Sha256::digest(session.id.as_str()).into();
    // Other programs also use addresses at the beginning of the range.
    Ipv4Addr::new(127, first.max(1), second, third.clamp(1, 254))
}

/// Returns the content of PID 1's control file. The token identifies the session and gives access to nothing else.
fn control(session: &Session) -> io::Result<String> {
    let mut random = [0u8; 32];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut random)?;
    Ok(format!(
        "{SESSION_ID}={}\n{SESSION_TOKEN}={}\n",
        session.id,
        sandbox_linux::hex::encode(&random)
    ))
}

fn creation_failed(error: bollard::errors::Error, plan: &Container) -> BackendError {
    let failed = BackendError::new("the engine cannot create the container", error).code("engine");
    if plan.network == "none" {
        return failed;
    }
    failed.hint("`docker network ls` lists the existing networks")
}

/// Adds a hint to an error of a container's start. The engine looks up networks and mounts layers only then.
fn explained(error: BackendError) -> BackendError {
    let source = error.source.as_ref().map(ToString::to_string).unwrap_or_default();
    if source.contains("mount local volume") || source.contains("type: overlay") {
        return error.hint(
            "the engine mounts the layer, so it must run on this machine, on a kernel with overlayfs `userxattr` (5.11 or later)",
        );
    }
    if source.contains("unable to apply caps") {
        return error.hint(
            "root lacks a capability on this machine, so privileged containers cannot start; remove `services.dockerd`",
        );
    }
    if !source.contains("network") {
        return error;
    }
    error.hint("`docker network ls` lists the existing networks")
}

async fn tokio_timeout<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, work).await.ok()
}

/// Formats the last lines of a container's output for an error message.
fn tail(text: &str) -> String {
    const LINES: usize = 12;
    if text.trim().is_empty() {
        return "it ended without output".into();
    }
    let lines: Vec<&str> = text.trim_end().lines().collect();
    format!("its output is\n{}", lines[lines.len().saturating_sub(LINES)..].join("\n"))
}

/// Returns the error for a secret that is not available.
fn unavailable(error: &CredentialError) -> BackendError {
    let hint = error.hint();
    let source = error.source().map(|source| source.to_string().into());
    BackendError { hint, source, ..BackendError::plain(error.to_string()) }
}
