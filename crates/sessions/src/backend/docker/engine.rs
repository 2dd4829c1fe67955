//! Speaking to the engine. Calls are made one after the other, each waited for.

use std::path::PathBuf;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::StatsOptionsBuilder;
use futures_util::StreamExt;
use sandbox_linux::process::Used;
use sandbox_policy::Host;
use tokio::runtime::Runtime;

use super::greeting::Greeting;
use super::plan::{Engine as Facts, IMAGE, Image};
use super::{address, rootless};
use crate::backend::BackendError;

/// Seconds that an answer may take: a container's end takes as long as its grace period.
const PATIENCE: u64 = 120;

/// Pause between attempts at something that the engine is about to allow.
pub(super) const AGAIN: Duration = Duration::from_millis(50);

/// A connection to the engine, and the runtime that it needs.
pub(super) struct Engine {
    pub(super) docker: Docker,
    runtime: Runtime,
    socket: PathBuf,
    by: String,
    greeting: Greeting,
}

impl Engine {
    /// Connects, and agrees on a version.
    pub(super) fn connect(host: &Host) -> Result<Self, BackendError> {
        let address = address::find(host)?;
        let greeting =
            Greeting::of(&address.socket).map_err(|error| unreachable(&address, error))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| BackendError::new("cannot start a runtime", error))?;
        let path = address.socket.to_string_lossy().into_owned();
        let docker = Docker::connect_with_unix(&path, PATIENCE, &greeting.client_version())
            .map_err(|error| unreachable(&address, error))?;
        Ok(Self { docker, runtime, socket: address.socket, by: address.by, greeting })
    }

    /// Waits for an answer.
    pub(super) fn ask<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, BackendError> {
        self.runtime.block_on(call).map_err(|error| self.failed(what, error))
    }

    /// The same, with nothing where what is asked for is not there.
    pub(super) fn ask_for<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, BackendError> {
        match self.runtime.block_on(call) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(self.failed(what, error)),
        }
    }

    /// Waits for anything else.
    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    fn failed(&self, what: &str, error: Error) -> BackendError {
        if status(&error).is_some() {
            return BackendError::new(format!("the engine cannot {what}"), error).code("engine");
        }
        let address = address::Address { socket: self.socket.clone(), by: self.by.clone() };
        unreachable(&address, error)
    }

    /// Returns true for Podman, which takes some settings in another form.
    pub(super) fn is_podman(&self) -> bool {
        self.greeting.podman.is_some()
    }

    /// Whether the engine makes everything below a read-only mount read-only.
    pub(super) fn reads_only_deeply(&self) -> bool {
        self.greeting.version >= (1, 44) && self.greeting.podman.is_none()
    }

    /// What a plan has to know of it. It is asked about itself only where a runtime is wanted, or where somebody else
    /// than root answers: that may be an engine of an ordinary user's, or somebody between.
    pub(super) fn facts(&self, runtimes: bool) -> Result<Facts, BackendError> {
        let podman = self.greeting.podman.is_some();
        let mut facts = Facts { socket: self.socket.clone(), podman, ..Facts::default() };
        if runtimes || !self.greeting.by_root {
            let info = self.ask("tell about itself", self.docker.info())?;
            if !podman {
                rootless::docker(&mut facts, &info, self.greeting.pid);
            }
            facts.runtimes = info.runtimes.unwrap_or_default().into_keys().collect();
            facts.runtimes.sort();
        }
        if podman && !self.greeting.by_root {
            let info = self.greeting.podman(&self.socket).map_err(|error| {
                BackendError::new("Podman does not tell about itself", error).code("engine")
            })?;
            rootless::podman(&mut facts, &info);
        }
        Ok(facts)
    }

    /// Returns a container's usage as the engine counts it, or nothing where it does not.
    pub(super) fn used(&self, name: &str) -> Result<Option<Used>, BackendError> {
        let options = StatsOptionsBuilder::default().stream(false).one_shot(true).build();
        let told = self.wait(async { self.docker.stats(name, Some(options)).next().await });
        let told = told.transpose().map_err(|error| self.failed("count what it uses", error))?;
        let Some(told) = told else { return Ok(None) };
        let processes = told.pids_stats.and_then(|pids| pids.current);
        let memory = told.memory_stats.and_then(|memory| memory.usage);
        let time = told.cpu_stats.and_then(|cpu| cpu.cpu_usage).and_then(|cpu| cpu.total_usage);
        Ok(processes.zip(memory).zip(time).map(|((processes, memory), nanoseconds)| {
            let cpu = Duration::from_nanos(nanoseconds).as_secs_f64();
            Used { processes, memory, cpu }
        }))
    }

    /// What a plan has to know of an image. It is never fetched: what runs is what the user has.
    pub(super) fn image(&self, name: Option<&str>) -> Result<Image, BackendError> {
        let name = name.unwrap_or(IMAGE);
        let found = self.ask_for("look at the image", self.docker.inspect_image(name))?;
        let Some(found) = found else {
            let hint = if name == IMAGE {
                "make it: agent-sandbox image build".to_owned()
            } else {
                format!(
                    "fetch it: docker pull {name}; or make one: agent-sandbox image build --tag {name}"
                )
            };
            return Err(BackendError::plain(format!("the engine has no image `{name}`"))
                .code("no_image")
                .hint(hint));
        };
        let config = found.config.unwrap_or_default();
        Ok(Image {
            id: found.id.unwrap_or_default(),
            env: config.env.unwrap_or_default(),
            volumes: config.volumes.unwrap_or_default().into_iter().map(PathBuf::from).collect(),
        })
    }
}

/// What the engine answered, if it did.
pub(super) fn status(error: &Error) -> Option<u16> {
    match error {
        Error::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

fn unreachable(
    address: &address::Address,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> BackendError {
    let (socket, by) = (address.socket.display(), &address.by);
    BackendError::new(format!("the engine cannot be reached at `{socket}` (by {by})"), error)
        .code("engine_unreachable")
        .hint("is it running, and may you use its socket? `docker version` asks the same")
}
