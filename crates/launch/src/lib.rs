//! Pipeline of one run, from a policy to the end of the command. A plain run and the supervisor of a session both call
//! [`launch`].
//!
//! ```text
//! recover      complete what a killed run left behind
//! decide       resolve paths and rules
//! credentials  resolve secrets: what the command and the proxy hold
//! layers       open the session that changes go into
//! plan         plain data, immutable from here on
//! run          namespaces, mounts, the command
//! scan         compare the project with its state at the start
//! close        end the session's run and sum up its changes
//! ```
//!
//! Nothing here prints. An implementation of [`Events`] receives progress reports, and `()` ignores them:
//!
//! ```no_run
//! use sandbox_policy::config::{self, Request};
//! use sandbox_launch::{Job, launch};
//!
//! let host = sandbox_policy::Host::read();
//! let request = Request { command: vec!["make".into()], ..Request::default() };
//! let job = Job::new(config::load(&host, &request)?, request.command);
//! let ended = launch(&host, job, &mut ())?;
//! println!("make ended with {}", ended.code);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod events;
mod error;
#[cfg(feature = "proxy")]
pub mod credentials;
#[cfg(feature = "proxy")]
mod egress;
#[cfg(feature = "layers")]
pub mod layers;
mod without;

use std::ffi::OsString;

use sandbox_core::first_run::FirstRun;
use sandbox_core::inspect::{self, InspectInput, Known};
use sandbox_core::plan::{Plan, ResolvedPolicy};
use sandbox_core::render::find::find;
use sandbox_core::run::{self, Ended, Gateway, StartError};
use sandbox_policy::Host;
use sandbox_policy::config::Config;

use sandbox_protocol::ExitCode;

pub use error::LaunchError;
pub use events::Events;
#[cfg(feature = "layers")]
use layers::OpenLayers;
#[cfg(not(feature = "proxy"))]
use without::credentials::Credentials;
#[cfg(not(feature = "proxy"))]
use without::egress::ProxyGateway;
#[cfg(not(feature = "layers"))]
use without::layers::{self, OpenLayers};
#[cfg(feature = "proxy")]
use {credentials::Credentials, egress::ProxyGateway};

/// A command to run, and the policy that it runs under.
#[derive(Debug)]
pub struct Job {
    /// The merged configuration.
    pub config: Config,
    /// The sandbox's command.
    pub command: Vec<OsString>,
    /// Index of the agent's first word in `command`. Not 0 when a program of agent-sandbox starts the agent.
    pub agent_at: usize,
    /// Name of the session whose layers receive the changes. Without one, a session is created for the run.
    pub session: Option<String>,
    /// Exit code when connections were refused.
    pub on_refusal: OnRefusal,
    /// Wall clock time before any file was read.
    pub started: (i64, u32),
}

impl Job {
    /// Creates the job of a plain run.
    pub fn new(config: Config, command: Vec<OsString>) -> Self {
        let started = sandbox_linux::clock::wall_exactly();
        let on_refusal = OnRefusal::Report;
        Self { config, command, agent_at: 0, session: None, on_refusal, started }
    }
}

/// Exit code of a command that succeeded although connections were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRefusal {
    /// The command's own.
    Report,
    /// [`ExitCode::Blocked`].
    Fail,
}

impl OnRefusal {
    fn apply(self, code: u8, refused: usize) -> u8 {
        if code == 0 && refused > 0 && self == Self::Fail { ExitCode::Blocked.code() } else { code }
    }
}

/// Runs a job to its end. Closes everything it opened, also when a later step fails.
pub fn launch(host: &Host, job: Job, events: &mut dyn Events) -> Result<Ended, LaunchError> {
    make_directories(host, &job.config)?; // for records and sessions, which only hide when they exist
    let Job { config, command, agent_at, session, on_refusal, started } = job;
    let agent = command.get(agent_at..).unwrap_or_default();
    let (policy, _state) = first_run(host, ResolvedPolicy::of(host, config)?, agent, events)?; // unused state is removed on drop
    let known = recover(host, &policy, events)?; // what a killed run left behind, before anything is decided
    let decided = policy.decide(host, &known)?; // every path and rule, resolved
    let inputs = decided.inputs(command);
    let (credentials, mut inputs) = Credentials::resolve(host, &decided, inputs, agent_at)?; // for the command and the proxy
    let mut layers = OpenLayers::open(host, &decided, session, &inputs.command, started)?; // no `?` between here and `close`
    inputs.stores = layers.as_mut().map(OpenLayers::take_stores).unwrap_or_default();
    let plan = decided.finish(inputs).described(); // plain data, immutable from here on
    let ended = run(host, &plan, credentials, (started, on_refusal), events); // the command, and the scan after it
    if let Some(layers) = layers {
        layers.close(ended.as_ref().ok().map(|ended| ended.code), events);
    }
    ended
}

/// Creates the directories of records and sessions before planning, because only existing directories can be hidden.
fn make_directories(host: &Host, config: &Config) -> Result<(), LaunchError> {
    if !host.inside {
        inspect::create_state_dir(host)?;
        layers::create_data_dir(config, host)?;
    }
    Ok(())
}

/// Creates the state that an agent on its first run cannot create in a read-only home. Dropping the second value removes
/// what was not used.
fn first_run(
    host: &Host,
    policy: ResolvedPolicy,
    agent: &[OsString],
    events: &mut dyn Events,
) -> Result<(ResolvedPolicy, FirstRun), LaunchError> {
    let missing = if host.inside { Vec::new() } else { policy.missing_state(agent) };
    let state = FirstRun::prepare(missing).unwrap_or_else(|error| {
        events.note(&error.to_string());
        FirstRun::default()
    });
    if state.made().next().is_none() {
        return Ok((policy, state));
    }
    for path in state.made() {
        events.debug("first run", &format!("made {}", path.display()));
    }
    Ok((ResolvedPolicy::of(host, policy.into_config())?, state))
}

/// Completes the scans of killed runs. Later decisions depend on the resulting files.
fn recover(
    host: &Host,
    policy: &ResolvedPolicy,
    events: &mut dyn Events,
) -> Result<Known, LaunchError> {
    if host.inside {
        return Ok(inspect::known(host, &policy.roots()));
    }
    let recalled = inspect::recall(host, &policy.roots())?;
    events.recovered(&recalled.report);
    Ok(recalled.known)
}

/// Runs the plan, scans the project, and reports refused connections.
fn run(
    host: &Host,
    plan: &Plan,
    credentials: Credentials,
    (started, on_refusal): ((i64, u32), OnRefusal),
    events: &mut dyn Events,
) -> Result<Ended, LaunchError> {
    events.planned(plan, host);
    let bwrap = find(host, Some(plan)).map_err(StartError::from)?;
    let mut gateway = ProxyGateway::of(plan, credentials, host, started)?;
    let record = record(host, plan)?;
    let attached = gateway.as_mut().map(|gateway| gateway as &mut dyn Gateway);
    let renderings = run::renderings(host);
    let mut reasons = Vec::new();
    let ended = run::run(plan, &bwrap, &renderings, attached, |reason| reasons.push(reason));
    for reason in &reasons {
        events.debug("process", reason);
    }
    let ended = ended.map_err(|error| LaunchError::start(error, plan, host));
    if let Ok(ended) = &ended {
        events.ended(ended);
    }
    let refused = gateway.map_or(0, |gateway| gateway.report(events));
    if let Some(record) = record {
        events.scanned(&record.finish());
    }
    let ended = ended?;
    Ok(Ended { code: on_refusal.apply(ended.code, refused), ..ended })
}

/// Records the run's start. Inside a sandbox the outermost run scans the whole tree.
fn record(host: &Host, plan: &Plan) -> Result<Option<inspect::Run>, LaunchError> {
    if host.inside {
        return Ok(None);
    }
    let guarded = &plan.guard;
    let input =
        InspectInput { roots: &guarded.roots, git: &guarded.git, config_files: &guarded.files };
    Ok(Some(inspect::begin(host, &input)?))
}
