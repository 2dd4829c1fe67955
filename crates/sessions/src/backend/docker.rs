//! Sessions in containers, through the Engine API.
//!
//! [`plan`] decides everything about a container. The rest creates a directory on the host, the
//! connection to the proxy, and the container. Its name derives from the session's id, and its labels name the session,
//! so the next command finds what an interrupted one left.
//!
//! ```text
//! boxes/ID/          files that the container mounts; 0700
//! boxes/ID/home      the agent's home, which outlives the container
//! boxes/ID/control   settings for PID 1
//! boxes/ID/door      rendezvous socket, on which PID 1 passes its listeners to the proxy
//! ```

pub mod plan;
mod names;
mod address;
mod greeting;
mod rootless;
mod engine;
mod authorized;
mod seccomp;
mod planned;
mod render;
mod files;
mod layer;
mod make;
mod observe;
mod pause;
mod strays;
mod process;
mod attach;

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::io;
use std::path::{Path, PathBuf};

use bollard::models::{ContainerInspectResponse, ContainerState};
use sandbox_bridge::process::end_broker;
use sandbox_linux::process::Used;
use sandbox_linux::pty::Size;
use sandbox_policy::Host;
use sandbox_policy::config::{Config, Request};
use sandbox_protocol::Hint;
use sandbox_protocol::layout;
use sandbox_proxy::client::ClientError;

use self::engine::Engine;
use self::files::Facts;
use self::plan::{Binaries, Container, ContainerError};
use self::process::Target;
use super::{
    Authorized, Backend, BackendError, Capabilities, Connection, Exec, Listen, Observed, Planned,
    RecordLookup, Recorder, Stray,
};
use crate::data_dir::DataDir;
use crate::error::ControlError;
use crate::session::{BackendKind, Session};
use crate::store::{Thing, ThingKind};

/// Backend that runs sessions in containers.
pub struct Docker {
    data_dir: DataDir,
    host: Host,
    engine: OnceCell<Engine>,
    /// The last plan, so that the engine is not queried twice.
    planned: RefCell<Option<Container>>,
    warnings: RefCell<Vec<String>>,
}

impl Docker {
    /// Creates the backend. It connects to the engine at the first use.
    pub fn new(data_dir: DataDir, host: Host) -> Self {
        let (planned, warnings) = (RefCell::default(), RefCell::default());
        Self { data_dir, host, engine: OnceCell::new(), planned, warnings }
    }

    fn engine(&self) -> Result<&Engine, BackendError> {
        if self.engine.get().is_none() {
            let engine = Engine::connect(&self.host)?;
            let _ = self.engine.set(engine);
        }
        self.engine.get().ok_or_else(|| BackendError::plain("there is no container engine"))
    }

    /// Plans the container of a configuration, for the engine's current state.
    fn plan_container(&self, config: &Config) -> Result<Container, BackendError> {
        let engine = self.engine()?;
        let image =
            engine.image(config.session.image.as_ref().map(|image| image.value.as_str()))?;
        let binaries = binaries(&self.host);
        let session = plan::SessionPaths { id: "", dir: Path::new(""), binaries: &binaries };
        let facts = engine.facts(config.session.runtime.is_some())?;
        let plan = plan::container(&self.host, config, &session, &facts, &image)
            .map_err(|error| refused(&error))?;
        self.planned.replace(Some(plan.clone()));
        Ok(plan)
    }

    /// Returns the plan of a session: the last plan if the session's policy was derived from it, else a new one.
    fn plan_of(&self, session: &Session, config: &Config) -> Result<Container, BackendError> {
        let planned = self.planned.take().filter(|plan| plan.policy_hash() == session.policy);
        planned.map_or_else(|| self.plan_container(config), Ok)
    }

    fn dir(&self, session: &Session) -> PathBuf {
        self.data_dir.path().join("boxes").join(session.id.as_str())
    }

    fn inspect(&self, name: &str) -> Result<Option<ContainerInspectResponse>, BackendError> {
        let engine = self.engine()?;
        engine.find_optional("inspect the container", engine.docker.inspect_container(name, None))
    }

    /// Returns whether the session's container has its current policy; `None` if there is no container.
    fn is_made(&self, session: &Session) -> Result<Option<bool>, BackendError> {
        let Some(found) = self.inspect(&names::container(session))? else { return Ok(None) };
        let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
        let has = |label: &str, value: &str| labels.get(label).is_some_and(|is| is == value);
        if !has(render::SESSION, session.id.as_str()) || !has(render::STATE, &self.data_dir_hash())
        {
            return Err(BackendError::plain(format!(
                "a container `{}` exists, but does not belong to this session",
                names::container(session)
            ))
            .hint("remove or rename it"));
        }
        Ok(Some(has(render::POLICY, &session.policy)))
    }

    /// Starts the processes that serve a session from outside: the proxy, which restores its rendezvous sockets, and the
    /// broker.
    fn bind_proxy(&self, session: &Session, facts: &Facts) -> Result<(), BackendError> {
        if facts.proxy {
            self.proxy()?.ensure(&self.host.exe).map_err(proxy_failed)?;
        }
        self.start_broker(session, facts)
    }

    fn facts(&self, session: &Session) -> Result<Facts, BackendError> {
        Facts::read(&self.dir(session)).map_err(|error| {
            let mut broken = unreachable(session, error);
            broken.message = format!("session `{}` is incomplete", session.name);
            broken
        })
    }
}

fn unreachable(session: &Session, error: io::Error) -> BackendError {
    let name = &session.name;
    BackendError::new(format!("session `{name}` does not respond"), error)
        .code("unreachable")
        .hint(format!("bring it up again: agent-sandbox up --name {name}"))
}

impl Backend for Docker {
    fn kind(&self) -> BackendKind {
        BackendKind::Docker
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            images: true,
            resources: true,
            suspend: true,
            survives_reboot: true,
            logs: true,
        }
    }

    fn plan(&self, config: Config) -> Result<Box<dyn Planned>, ControlError> {
        Ok(Box::new(self.plan_container(&config)?))
    }

    fn authorized(&self, session: &Session) -> Option<Authorized> {
        self.read_authorized(session)
    }

    fn ensure(&self, session: &Session, record: &mut Recorder<'_>) -> Result<(), ControlError> {
        let config = config(&self.host, session)?;
        let is_whole = || self.dir(session).join("facts.json").try_exists().unwrap_or(false);
        match self.is_made(session)? {
            Some(true) if is_whole() => {
                let state = self.inspect(&names::container(session))?.and_then(|found| found.state);
                // The engine restarts an agent that keeps ending.
                let is_up = |state: &ContainerState| {
                    [state.running, state.restarting].contains(&Some(true))
                };
                if state.as_ref().is_some_and(is_up) {
                    return Ok(());
                }
            }
            Some(_) => {
                self.keep_log(session);
                self.remove_container(&names::container(session))?;
                self.make(session, &config, record)?;
            }
            None => self.make(session, &config, record)?,
        }
        Ok(self.start(session)?)
    }

    fn observe(&self, session: &Session) -> Result<Observed, BackendError> {
        self.observe_container(session)
    }

    fn observe_all(&self, sessions: &[&Session]) -> Result<Vec<Observed>, BackendError> {
        self.observe_containers(sessions)
    }

    fn used(&self, session: &Session) -> Result<Option<Used>, BackendError> {
        self.engine()?.used(&names::container(session))
    }

    fn bind(&self, session: &Session, _: &mut Recorder<'_>) -> Result<(), ControlError> {
        Ok(self.bind_proxy(session, &self.facts(session)?)?)
    }

    fn connect(&self, session: &Session, exec: Exec) -> Result<Connection, BackendError> {
        let engine = self.engine()?;
        let facts = self.facts(session)?;
        if !facts.attends {
            let name = &session.name;
            return Err(BackendError::plain(format!(
                "the container of session `{name}` was created by an older version of agent-sandbox"
            ))
            .code("unreachable")
            .hint(format!(
                "recreate it: agent-sandbox down {name} && agent-sandbox up --name {name}"
            )));
        }
        self.bind_proxy(session, &facts)?;
        let target = Target {
            docker: engine.docker.clone(),
            container: names::container(session),
            user: facts.user.clone(),
            init: facts.init.clone(),
            cwd: facts.inside(exec.cwd.as_deref(), &session.project),
        };
        process::start(target, exec).map_err(|error| unreachable(session, error))
    }

    fn attach(&self, session: &Session, size: Size) -> Result<Connection, BackendError> {
        let facts = self.facts(session)?;
        if !facts.terminal {
            let name = &session.name;
            return Err(BackendError::plain(format!("session `{name}` has no agent to attach to"))
                .code("no_agent")
                .hint(format!("start a shell in it: agent-sandbox exec -it -s {name} sh; or set `agent.command`, and bring it up again")));
        }
        self.bind_proxy(session, &facts)?;
        let docker = self.engine()?.docker.clone();
        attach::start(docker, names::container(session), size)
            .map_err(|error| unreachable(session, error))
    }

    fn logs(
        &self,
        session: &Session,
        how: Listen,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool, BackendError> {
        // The output of a removed container is in the session's own log.
        if self.inspect(&names::container(session))?.is_none() {
            return Ok(false);
        }
        self.listen(session, how, each).map(|()| true)
    }

    fn suspend(&self, session: &Session) -> Result<(), BackendError> {
        let engine = self.engine()?;
        engine
            .call("pause the container", engine.docker.pause_container(&names::container(session)))
    }

    fn resume(&self, session: &Session) -> Result<(), BackendError> {
        let engine = self.engine()?;
        engine.call(
            "unpause the container",
            engine.docker.unpause_container(&names::container(session)),
        )
    }

    fn pause(&self, session: &Session) -> Result<Box<dyn Any>, BackendError> {
        Ok(Box::new(self.pause_until_dropped(session)?))
    }

    fn keep_log(&self, session: &Session) {
        if let Err(error) = self.save_log(session) {
            self.warnings.borrow_mut().push(with_causes(&error));
        }
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.take()
    }

    fn remove(&self, session: &Session, thing: &Thing) -> Result<(), BackendError> {
        match thing.kind {
            ThingKind::Container => self.remove_container(&names::container(session)),
            ThingKind::Rendezvous => match self.proxy()?.close_rendezvous(session.id.as_str()) {
                // A stopped proxy has its rendezvous sockets recorded. It is started to forget this one.
                Err(ClientError::Unreachable(..)) => {
                    let client = self.proxy()?;
                    client.ensure(&self.host.exe).map_err(proxy_failed)?;
                    client.close_rendezvous(session.id.as_str()).map_err(proxy_failed)
                }
                other => other.map_err(proxy_failed),
            },
            ThingKind::Broker => end_broker(&self.dir(session)).map_err(|error| {
                BackendError::new("cannot stop the broker of host commands", error)
            }),
            ThingKind::AuthorizedKey => authorized::take_out(Path::new(&thing.identity), session),
            ThingKind::Key => match std::fs::remove_file(&thing.identity) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(BackendError::new("cannot remove the SSH key", error))
                }
                _ => Ok(()),
            },
            ThingKind::Volume => {
                // The engine may have finished creating a container that did not exist when its removal was
                // requested.
                self.remove_container(&names::container(session))?;
                self.tidy(session, &thing.identity)?;
                self.remove_volume(&thing.identity)
            }
            ThingKind::Layer => self.release_layer(session),
            ThingKind::Directory => files::clear(&self.dir(session))
                .map_err(|error| BackendError::new("cannot clear the session's directory", error)),
            _ => Ok(()),
        }
    }

    fn forget(&self, session: &Session) -> Result<(), BackendError> {
        remove_dir(&self.dir(session))
    }

    fn sweep(&self, session: &Session) -> Result<(), BackendError> {
        self.sweep_containers(session)
    }

    fn strays(&self, record: &dyn RecordLookup) -> Result<Vec<Stray>, BackendError> {
        self.list_strays(record)
    }

    fn remove_stray(&self, stray: &Stray) -> Result<(), BackendError> {
        self.remove_one_stray(stray)
    }
}

/// Formats an error and its causes on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|source| format!(": {}", with_causes(source)));
    format!("{error}{}", cause.unwrap_or_default())
}

fn remove_dir(dir: &Path) -> Result<(), BackendError> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(BackendError::new(format!("cannot remove `{}`", dir.display()), error)
                .hint("files of the agent in it may belong to another user; remove it as root"))
        }
        _ => Ok(()),
    }
}

/// Returns the paths of both binaries, which are next to this one. They are static, so they run in any image.
fn binaries(host: &Host) -> Binaries {
    let init = host.exe.with_file_name(layout::INIT);
    Binaries {
        sandbox: Some(host.exe.clone()),
        init: Some(init).filter(|init| init.try_exists().unwrap_or(false)),
    }
}

fn config(host: &Host, session: &Session) -> Result<Config, BackendError> {
    let request = Request::recall(&session.request)
        .map_err(|error| BackendError::new("cannot decode the session's request", error))?;
    sandbox_policy::config::load(host, &request).map_err(|error| {
        let hint = error.hint();
        let mut failed = BackendError::new("cannot load the configuration", error);
        failed.hint = hint;
        failed
    })
}

fn refused(error: &ContainerError) -> BackendError {
    let hint = error.hint();
    let mut refused = BackendError::plain(error.to_string()).code("refused");
    refused.source = std::error::Error::source(error).map(|source| source.to_string().into());
    refused.hint = hint;
    refused
}

fn proxy_failed(error: ClientError) -> BackendError {
    let hint = error.hint();
    let mut failed = BackendError::new("the proxy cannot serve the session", error).code("proxy");
    failed.hint = hint;
    failed
}
