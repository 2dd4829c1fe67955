//! Step 7: starts a Docker daemon beside the agent, if one is installed. Its failure does not prevent the start.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox_linux::process::{Program, fork};
use sandbox_protocol::ExitCode;

use super::settings::{Docker, Settings};
use super::signals;
use super::step::{Outcome, StepError, file};
use super::supervisor::{Ending, Event, Supervisor, kill_group};
use crate::environment::Environment;

const SOCKET: &str = "/var/run/docker.sock";
const READY: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Timeout of a ping. Signals are not handled meanwhile.
const PING: Duration = Duration::from_millis(200);
/// Time for a daemon to stop its containers.
const STOP: Duration = Duration::from_secs(10);

/// A running daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Daemon {
    /// Process id. The process leads its session.
    pub(crate) pid: i32,
}

/// Starts the daemon and waits until it answers.
pub(crate) fn set_up(
    settings: &Settings,
    supervisor: &mut Supervisor,
) -> Result<(Outcome, Option<Daemon>), StepError> {
    if settings.docker == Docker::Off {
        return Ok((Outcome::Skipped("AGENT_DOCKERD=off"), None));
    }
    let path = settings.environment.set("PATH");
    let Ok(program) = crate::lookup::find(OsStr::new("dockerd"), path) else {
        return if settings.docker_required {
            Err(StepError::NoProgram("dockerd"))
        } else {
            Ok((Outcome::Skipped("no dockerd on PATH"), None))
        };
    };
    if !rustix::process::geteuid().is_root() {
        return Ok((Outcome::Skipped("not root"), None));
    }
    let daemon = start(settings, &program)?;
    if let Err(error) = answered(daemon, supervisor) {
        // Processes that it has started so far must not remain beside the agent.
        kill_group(daemon.pid, signals::KILL);
        return Err(error);
    }
    share(settings)?;
    Ok((Outcome::Done, Some(daemon)))
}

fn start(settings: &Settings, program: &Path) -> Result<Daemon, StepError> {
    let data = settings.paths.data.join("docker");
    // Files that a killed container left behind name processes that do not exist any more.
    for stale in ["/var/run/docker.pid", "/run/docker.pid", SOCKET] {
        let _ = fs::remove_file(stale);
    }
    let _ = fs::remove_dir_all("/var/run/docker/containerd");
    give_cgroups();
    let path = settings.paths.data.join("dockerd.log");
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    let log: OwnedFd = opened.map_err(file("write", &path))?.into();
    let mut words: Vec<OsString> = vec![program.into(), "--data-root".into(), data.into()];
    words.extend(["--host", "unix:///var/run/docker.sock"].map(OsString::from));
    let environment = environment(&settings.environment);
    let child = fork(|| match become_it(&words, &environment, &log) {
        Ok(program) => {
            let _ = program.exec_path(&words[0]);
            ExitCode::NotFound.into()
        }
        Err(_) => ExitCode::NotExecutable.into(),
    })?;
    Ok(Daemon { pid: child.pid() })
}

fn become_it(
    words: &[OsString],
    environment: &Environment,
    log: &OwnedFd,
) -> std::io::Result<Program> {
    rustix::process::setsid()?;
    let null: OwnedFd = OpenOptions::new().read(true).open("/dev/null")?.into();
    sandbox_linux::fd::replace(0, &null)?;
    sandbox_linux::fd::replace(1, log)?;
    sandbox_linux::fd::replace(2, log)?;
    sandbox_linux::fd::close_all_on_exec()?;
    sandbox_linux::signal::reset_for_exec()?;
    Program::with_entries(words.iter().cloned(), environment.entries())
}

/// Returns the environment of the daemon, without the agent's secrets.
fn environment(agents: &Environment) -> Environment {
    let names =
        ["PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"];
    let mut environment = Environment::default();
    environment.put("HOME", b"/root");
    for name in names {
        if let Some(value) = agents.set(name) {
            environment.put(name, value);
        }
    }
    environment
}

/// Moves all processes out of the container's cgroup into a child, so that the daemon can create other children: the
/// "no internal processes" rule in cgroups(7).
fn give_cgroups() {
    let root = Path::new("/sys/fs/cgroup");
    let Ok(controllers) = fs::read_to_string(root.join("cgroup.controllers")) else { return };
    let inner = root.join("init");
    if fs::create_dir(&inner).is_err() && !inner.is_dir() {
        return;
    }
    for pid in fs::read_to_string(root.join("cgroup.procs")).unwrap_or_default().lines() {
        let _ = fs::write(inner.join("cgroup.procs"), pid);
    }
    for controller in controllers.split_whitespace() {
        let _ = fs::write(root.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

fn answered(daemon: Daemon, supervisor: &mut Supervisor) -> Result<(), StepError> {
    let until = Instant::now() + READY;
    while !answers() {
        match supervisor.next(Some(Instant::now() + LOOK_AGAIN))? {
            Event::Ended(pid, ending) if pid == daemon.pid => return Err(ended(ending)),
            Event::Signal(signal) if signals::action(signal) == signals::Action::End => {
                return Err(StepError::Asked(signal));
            }
            _ if Instant::now() > until => return Err(StepError::Late("dockerd")),
            _ => {}
        }
    }
    Ok(())
}

/// Returns true when the daemon serves requests. Its socket exists long before that, and even if it is about to fail.
fn answers() -> bool {
    let ask = || {
        let mut socket = UnixStream::connect(SOCKET)?;
        socket.set_read_timeout(Some(PING))?;
        socket.write_all(b"GET /_ping HTTP/1.0\r\n\r\n")?;
        let mut answer = [0; 12];
        socket.read_exact(&mut answer)?;
        Ok::<_, std::io::Error>(answer.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

fn ended(ending: Ending) -> StepError {
    StepError::Failed(
        "dockerd",
        format!("exited with code {}; see `dockerd.log` in the data directory", ending.code()),
    )
}

fn share(settings: &Settings) -> Result<(), StepError> {
    let socket = Path::new(SOCKET);
    let mode = match settings.docker {
        Docker::Group => {
            chown(socket, Some(0), Some(settings.user.gid))
                .map_err(file("change the owner of", socket))?;
            0o660
        }
        Docker::AllUsers | Docker::Off => 0o666,
    };
    fs::set_permissions(socket, Permissions::from_mode(mode))
        .map_err(file("change the attributes of", socket))
}

impl Daemon {
    /// Stops the daemon and its containers. Kills it if it does not stop in time.
    pub(crate) fn stop(self, supervisor: &mut Supervisor) -> std::io::Result<()> {
        if !super::supervisor::is_there(self.pid) {
            return Ok(());
        }
        super::supervisor::kill(self.pid, signals::TERM);
        let until = Instant::now() + STOP;
        loop {
            match supervisor.next(Some(until))? {
                Event::Ended(pid, _) if pid == self.pid => return Ok(()),
                Event::Timeout => {
                    kill_group(self.pid, signals::KILL);
                    return Ok(());
                }
                _ => {}
            }
        }
    }
}
