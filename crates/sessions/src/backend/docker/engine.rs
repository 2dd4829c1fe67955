//! Client of the engine. Its calls are synchronous.

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
use super::plan::{EngineFacts, IMAGE, Image};
use super::{address, rootless};
use crate::backend::BackendError;

/// Time limit for a response in seconds. Stopping a container takes as long as its grace period.
const PATIENCE: u64 = 120;

/// Interval between retries of an operation that the engine will soon allow.
pub(super) const AGAIN: Duration = Duration::from_millis(50);

/// Connection to the engine, and its runtime.
pub(super) struct Engine {
    pub(super) docker: Docker,
    runtime: Runtime,
    socket: PathBuf,
    by: String,
    greeting: Greeting,
}

impl Engine {
    /// Connects, and negotiates the API version.
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

    /// Makes a call and waits for the response. `what` completes the message "the engine cannot …".
    pub(super) fn call<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, BackendError> {
        self.runtime.block_on(call).map_err(|error| self.failed(what, error))
    }

    /// Makes a call like [`Self::call`], and returns `None` for status 404.
    pub(super) fn find_optional<T>(
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

    /// Waits for a future.
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

    /// Returns true for Podman, which expects some settings in a different form.
    pub(super) fn is_podman(&self) -> bool {
        self.greeting.podman.is_some()
    }

    /// Returns true if the engine makes mounts below a read-only mount read-only too.
    pub(super) fn reads_only_deeply(&self) -> bool {
        self.greeting.version >= (1, 44) && self.greeting.podman.is_none()
    }

    /// Returns the properties that a plan depends on. Queries the engine only if a runtime is requested, or if the process at
    /// the socket is not root's: it may be a rootless engine, or a proxy in front of one.
    pub(super) fn facts(&self, runtimes: bool) -> Result<EngineFacts, BackendError> {
        let podman = self.greeting.podman.is_some();
        let mut facts =
            EngineFacts { socket: self.socket.clone(), podman, ..EngineFacts::default() };
        if runtimes || !self.greeting.by_root {
            let info = self.call("report its properties", self.docker.info())?;
            if !podman {
                rootless::docker(&mut facts, &info, self.greeting.pid);
            }
            facts.runtimes = info.runtimes.unwrap_or_default().into_keys().collect();
            facts.runtimes.sort();
        }
        if podman && !self.greeting.by_root {
            let info = self.greeting.podman(&self.socket).map_err(|error| {
                BackendError::new("cannot query Podman's properties", error).code("engine")
            })?;
            rootless::podman(&mut facts, &info);
        }
        Ok(facts)
    }

    /// Returns a container's usage, or `None` if the engine does not measure it.
    pub(super) fn used(&self, name: &str) -> Result<Option<Used>, BackendError> {
        let options = StatsOptionsBuilder::default().stream(false).one_shot(true).build();
        let told = self.wait(async { self.docker.stats(name, Some(options)).next().await });
        let told = told
            .transpose()
            .map_err(|error| self.failed("measure the container's usage", error))?;
        let Some(told) = told else { return Ok(None) };
        let processes = told.pids_stats.and_then(|pids| pids.current);
        let memory = told.memory_stats.and_then(|memory| memory.usage);
        let time = told.cpu_stats.and_then(|cpu| cpu.cpu_usage).and_then(|cpu| cpu.total_usage);
        Ok(processes.zip(memory).zip(time).map(|((processes, memory), nanoseconds)| {
            let cpu = Duration::from_nanos(nanoseconds).as_secs_f64();
            Used { processes, memory, cpu }
        }))
    }

    /// Returns the properties of a local image. Never pulls one, so only images that the user has are run.
    pub(super) fn image(&self, name: Option<&str>) -> Result<Image, BackendError> {
        let name = name.unwrap_or(IMAGE);
        let found = self.find_optional("inspect the image", self.docker.inspect_image(name))?;
        let Some(found) = found else {
            let hint = if name == IMAGE {
                "build it: agent-sandbox image build".to_owned()
            } else {
                format!(
                    "pull it: docker pull {name}; or build it: agent-sandbox image build --tag {name}"
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

/// Returns the HTTP status of an error response.
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
    BackendError::new(
        format!("cannot connect to the container engine at `{socket}` (from {by})"),
        error,
    )
    .code("engine_unreachable")
    .hint("check with `docker version` that it runs and that you can access its socket")
}
