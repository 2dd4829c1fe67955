//! The personality `init`: sets up the container, starts the agent, forwards signals, reaps children, and shuts down.

mod settings;
mod signals;
mod supervisor;
mod step;
mod task;
mod copy;
mod home;
mod workspace;
mod layer;
mod link;
mod dockerd;
mod rendezvous;
mod relay;
mod child;
mod stop;
mod machine;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::DumpableBehavior;
use rustix::thread::CapabilitySet;
use sandbox_protocol::Hint;
use sandbox_protocol::exit::{ExitCode, by_signal};
use sandbox_protocol::multicall::{self, Personality};
use sandbox_protocol::variable;
use thiserror::Error;

use crate::boot::Situation;
use crate::control::{ControlError, ControlFile};
use crate::environment::Environment;
use crate::identity;
use crate::init_uid;
use crate::log::Log;
use crate::mounts::{self, MountError};
use dockerd::Daemon;
use layer::Mounted;
use relay::Relay;
use rendezvous::Rendezvous;
use settings::{Settings, SettingsError};
use signals::Action;
use step::{Outcome, StepError};
use supervisor::{Event, Supervisor};
pub(crate) use supervisor::{kill, kill_group};

const LOG: Log = Log(Personality::Init.word());

/// Errors before the agent runs.
#[derive(Debug, Error)]
enum Fatal {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Mounts(#[from] MountError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("{step} failed")]
    Step { step: &'static str, source: StepError },
    #[error("a system call failed")]
    System(#[from] io::Error),
}

impl Hint for Fatal {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Settings(error) => error.hint(),
            Self::Mounts(error) => error.hint(),
            Self::Control(error) => error.hint(),
            Self::Step { source, .. } => source.hint(),
            Self::System(_) => None,
        }
    }
}

/// Services and mounts beside the agent, which must be removed at the end.
#[derive(Default)]
struct Standing {
    is_machine: bool,
    mounted: Option<Mounted>,
    docker: Option<Daemon>,
    rendezvous: Option<Rendezvous>,
    relay: Option<Relay>,
}

/// Runs PID 1 to the end. The exit code is that of the agent.
pub(crate) fn run(words: &[OsString]) -> std::process::ExitCode {
    let mut supervisor = match Supervisor::open() {
        Ok(supervisor) => supervisor,
        Err(error) => {
            LOG.error(&Fatal::from(error));
            return ExitCode::Failure.into();
        }
    };
    let is_machine = machine::prepare();
    let mut standing = Standing { is_machine, ..Standing::default() };
    let code = match start(words, &mut supervisor, &mut standing) {
        Ok((settings, agent)) => attend(&settings, agent, &mut supervisor, &mut standing),
        Err((error, hold)) => failed(&error, hold, &mut supervisor),
    };
    let code = code.unwrap_or_else(|error| {
        LOG.error(&Fatal::from(error));
        ExitCode::Failure.code()
    });
    standing.undo(&mut supervisor);
    if is_machine {
        machine::power_off(code);
    }
    code.into()
}

/// Reads the settings, sets up the container and starts the agent. A failure comes with the value of
/// `AGENT_DEBUG_HOLD`.
fn start(
    words: &[OsString],
    supervisor: &mut Supervisor,
    standing: &mut Standing,
) -> Result<(Settings, Option<i32>), (Fatal, bool)> {
    let mut environment = Environment::read();
    let hold = environment.is_on(variable::AGENT_DEBUG_HOLD);
    let prepared = prepare(words, &mut environment);
    drop(environment);
    // Erases the memory that `/proc/1/environ` shows. The next line denies access to all other memory.
    let erased = sandbox_linux::environment::erase(variable::is_stripped);
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let mut settings = prepared.map_err(|error| (error, hold))?;
    erased.map_err(|error| (error.into(), hold))?;
    let agent = set_up(&settings, supervisor, standing);
    if agent.is_err() && !hold {
        let _ = home::clear(&settings.paths.staging);
    }
    // The URL may contain a password.
    settings.workspace = None;
    Ok((settings, agent.map_err(|error| (error, hold))?))
}

fn prepare(words: &[OsString], environment: &mut Environment) -> Result<Settings, Fatal> {
    rustix::process::chdir("/").map_err(io::Error::from)?;
    // Before the change of the uid, because only the owner of the mounts can do this.
    mounts::restore_modes(LOG);
    let init_uid = init_uid::of(environment);
    if let Some(number) = init_uid {
        init_uid::switch_to(number)?;
    }
    mounts::check(environment)?;
    let control = ControlFile::take(environment)?;
    let passwd = std::fs::read("/etc/passwd").unwrap_or_default();
    let uid = rustix::process::geteuid().as_raw();
    // The file stays for the next start. It is safe from the agent only if PID 1 has another user.
    if let Some(control) = control.filter(|_| uid != init_uid.unwrap_or(0)) {
        return Err(control.refuse("the agent runs as the same user and could read it").into());
    }
    Ok(settings::decide(&Situation { environment, words, uid, passwd: &passwd, init_uid })?)
}

/// Runs the steps in order. Each step first checks whether an earlier start has done it.
fn set_up(
    settings: &Settings,
    supervisor: &mut Supervisor,
    standing: &mut Standing,
) -> Result<Option<i32>, Fatal> {
    // First, because the workspace may be cloned through the proxy.
    if let Some(wanted) = &settings.rendezvous {
        timed("the rendezvous", supervisor, |_| {
            standing.rendezvous = Some(Rendezvous::open(wanted)?);
            Ok(Outcome::Done)
        })?;
    }
    if !settings.at_home {
        set_up_home(settings, supervisor, standing)?;
    }
    start_docker(settings, supervisor, standing)?;
    if let Some(wanted) = &settings.relay {
        timed("the relay to the host", supervisor, |supervisor| {
            standing.relay = Some(Relay::open(wanted, settings.user.uid, supervisor)?);
            Ok(Outcome::Done)
        })?;
    }
    let step = |source| Fatal::Step { step: "the agent's start", source };
    let agent = settings.agent.as_ref().map(|agent| child::start(settings, agent)).transpose();
    reduce(standing);
    if settings.agent.is_none() {
        LOG.say(format_args!("no agent command; waiting for commands by `enter`"));
    }
    let agent = agent.map_err(step)?;
    // The backend that created the container waits for this line.
    LOG.say(format_args!("{}", multicall::READY));
    Ok(agent)
}

/// Sets up the home directory and the workspace in it, as a layer over the image's home.
fn set_up_home(
    settings: &Settings,
    supervisor: &mut Supervisor,
    standing: &mut Standing,
) -> Result<(), Fatal> {
    timed("the base home", supervisor, |supervisor| home::set_up(settings, supervisor))?;
    timed("the workspace", supervisor, |supervisor| workspace::set_up(settings, supervisor))?;
    timed("the layer's directory", supervisor, |_| layer::directory(settings))?;
    timed("the layer", supervisor, |supervisor| layer::init(settings, supervisor))?;
    timed("the layer's mount", supervisor, |supervisor| {
        let (outcome, mounted) = layer::mount(settings, supervisor)?;
        standing.mounted = mounted;
        Ok(outcome)
    })?;
    let paths = &settings.paths;
    let target = paths.home.join("workspace");
    timed("the workspace link", supervisor, |_| link::set_up(&paths.link, &target))
}

/// Starts Docker. A failure is only a warning, unless Docker is required or a signal ended the step.
fn start_docker(
    settings: &Settings,
    supervisor: &mut Supervisor,
    standing: &mut Standing,
) -> Result<(), Fatal> {
    let started = timed("dockerd", supervisor, |supervisor| {
        let (outcome, docker) = dockerd::set_up(settings, supervisor)?;
        standing.docker = docker;
        Ok(outcome)
    });
    match started {
        Err(Fatal::Step { source: StepError::Asked(signal), step }) => {
            Err(Fatal::Step { step, source: StepError::Asked(signal) })
        }
        Err(error) if settings.docker_required => Err(error),
        Err(error) => {
            LOG.warn(format_args!(
                "{}; continuing without Docker",
                sandbox_linux::error::chain(&error)
            ));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Runs one step and logs its outcome.
fn timed(
    step: &'static str,
    supervisor: &mut Supervisor,
    work: impl FnOnce(&mut Supervisor) -> Result<Outcome, StepError>,
) -> Result<(), Fatal> {
    let fatal = |source| Fatal::Step { step, source };
    if let Some(signal) = supervisor.asked_to_end()? {
        return Err(fatal(StepError::Asked(signal)));
    }
    let begun = Instant::now();
    let outcome = work(supervisor).map_err(fatal)?;
    let milliseconds = begun.elapsed().as_millis();
    match outcome {
        Outcome::Done => LOG.say(format_args!("{step}: done in {milliseconds} ms")),
        Outcome::Already => LOG.say(format_args!("{step}: already done")),
        Outcome::Skipped(why) => LOG.say(format_args!("{step}: {why}")),
    }
    Ok(())
}

/// Gives up capabilities. From now on, PID 1 only sends signals, reaps children and unmounts.
fn reduce(standing: &Standing) {
    let mut kept = CapabilitySet::KILL | CapabilitySet::SETUID | CapabilitySet::SETGID;
    if standing.mounted.is_some() {
        kept |= CapabilitySet::SYS_ADMIN;
    }
    if standing.is_machine {
        kept |= CapabilitySet::SYS_BOOT;
    }
    if let Err(error) = identity::keep(kept) {
        LOG.warn(format_args!(
            "PID 1 keeps its capabilities: {}",
            sandbox_linux::error::chain(&error)
        ));
    }
}

/// Waits until the agent ends, and forwards signals.
fn attend(
    settings: &Settings,
    agent: Option<i32>,
    supervisor: &mut Supervisor,
    standing: &mut Standing,
) -> io::Result<u8> {
    let spared = standing.spared();
    let (mut deadline, mut is_late) = (None, false);
    loop {
        let offer = standing.rendezvous.as_ref().and_then(Rendezvous::again);
        let again = standing.relay.as_ref().and_then(Relay::again);
        let until = [deadline, offer, again].into_iter().flatten().min();
        let server = standing.rendezvous.as_ref().and_then(Rendezvous::server);
        let event = supervisor.next_or(until, server)?;
        if let Some(rendezvous) = &mut standing.rendezvous {
            if event == Event::Readable {
                rendezvous.hear();
            }
            rendezvous.offer();
        }
        if let Some(relay) = &mut standing.relay {
            relay.look_after(event, deadline.is_some());
        }
        match event {
            Event::Ended(pid, ending) if Some(pid) == agent => return Ok(ending.code()),
            Event::Ended(..) | Event::Readable => {}
            Event::Signal(signal) => {
                let ends = signals::action(signal) == Action::End;
                match agent {
                    Some(agent) => kill_group(agent, signal),
                    None if ends => return Ok(by_signal(signal)),
                    None => {}
                }
                if ends && deadline.is_none() {
                    deadline = Some(Instant::now() + settings.grace);
                }
            }
            Event::Timeout if deadline.is_none_or(|end: Instant| Instant::now() < end) => {}
            Event::Timeout => {
                if !is_late {
                    LOG.warn(format_args!("the agent did not stop in time; killing all processes"));
                }
                is_late = true;
                stop::kill_tree(&spared);
                // Repeat until the agent is gone: a process that was just starting was not found.
                deadline = Some(Instant::now() + Duration::from_millis(100));
            }
        }
    }
}

/// Logs the error. With `AGENT_DEBUG_HOLD`, keeps the container running for inspection.
fn failed(error: &Fatal, hold: bool, supervisor: &mut Supervisor) -> io::Result<u8> {
    if let Fatal::Step { step, source: StepError::Asked(signal) } = error {
        LOG.say(format_args!("signal {signal} during {step}; stopping"));
        return Ok(by_signal(*signal));
    }
    LOG.error(error);
    if hold {
        LOG.say(format_args!(
            "AGENT_DEBUG_HOLD is set; waiting for a signal (inspect with `docker exec`)"
        ));
        loop {
            if let Event::Signal(signal) = supervisor.next(None)?
                && signals::action(signal) == Action::End
            {
                break;
            }
        }
    }
    Ok(ExitCode::Failure.code())
}

impl Standing {
    /// Returns the processes that outlive the agent and are stopped separately.
    fn spared(&self) -> Vec<i32> {
        let layer = self.mounted.as_ref().and_then(|mounted| mounted.daemon);
        layer.into_iter().chain(self.docker.map(|docker| docker.pid)).collect()
    }

    /// Stops services and unmounts, in an order in which nothing that is in use is removed.
    fn undo(self, supervisor: &mut Supervisor) {
        let complain = |what: &str, done: io::Result<()>| {
            if let Err(error) = done {
                LOG.warn(format_args!("{what}: {error}"));
            }
        };
        if let Some(docker) = self.docker {
            complain("cannot stop dockerd", docker.stop(supervisor));
        }
        let served: Vec<i32> = self.mounted.iter().filter_map(|mounted| mounted.daemon).collect();
        complain("cannot end the remaining processes", stop::end_all(supervisor, &served));
        if let Some(mounted) = &self.mounted {
            complain("cannot unmount the layer", mounted.undo(supervisor));
            let data = File::open("/.data").and_then(|data| Ok(rustix::fs::syncfs(&data)?));
            complain("cannot sync the layer to disk", data);
        }
    }
}
