//! Execution of a plan: starts the sandbox, forwards signals, reports the exit status.
//!
//! The calling process supervises the sandbox. Its direct child is PID 1 of the sandbox or bubblewrap, and dies with
//! it. Terminating signals are blocked in that child, so that they end only the command. The process that becomes the
//! command reports its PID first and unblocks the signals again.

pub(crate) mod first_process;
mod egress;
mod watch;
mod supervisor;
mod command;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use sandbox_linux::process::Program;
use sandbox_linux::seccomp::CgroupNamespaces;
use sandbox_linux::signal::{self, Signals};
use sandbox_linux::{channel, clock, fd, landlock, process, root, seccomp};
use sandbox_protocol::Hint;
use sandbox_protocol::layout::RUNTIME_BINARY;
use sandbox_protocol::multicall::{MULTICALL, START};
use sandbox_protocol::report;
use thiserror::Error;

use crate::plan::{CopyOnWrite, Plan};
use crate::render::bwrap::{Arguments, Word};
use crate::render::find::{Bwrap, FindError};
use crate::render::own::Hiding;
pub use command::{become_command, start};
pub use egress::{AttachError, Gateway};
use sandbox_policy::host::Host;
use supervisor::{Sandbox, Waited};

/// Method by which a sandbox is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rendering {
    /// Native namespaces and mounts, with an overlay on the home directory if the plan has one.
    Own(Hiding),
    /// bubblewrap.
    Bubblewrap,
}

/// Returns the renderings to try, strongest first. `AGENT_SANDBOX_MOUNTS=bwrap` allows bubblewrap only.
pub fn renderings(host: &Host) -> Vec<Rendering> {
    if host.var("AGENT_SANDBOX_MOUNTS").is_some_and(|value| value == "bwrap") {
        return vec![Rendering::Bubblewrap];
    }
    vec![Rendering::Own(Hiding::Overlay), Rendering::Own(Hiding::Binds), Rendering::Bubblewrap]
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit code to pass on.
    pub code: u8,
    /// The reason why the command could not be executed, if it was not.
    pub why: Option<String>,
    /// The rendering that made the sandbox.
    pub rendering: Rendering,
}

/// Failure to start a sandbox.
#[derive(Debug, Error)]
pub enum StartError {
    /// No bubblewrap that is safe to run.
    #[error(transparent)]
    Bwrap(#[from] FindError),
    /// A standard descriptor is a directory.
    #[error("descriptor {0} is a directory, through which a command could leave the sandbox")]
    DirectoryDescriptor(i32),
    /// A system call of the supervisor failed.
    #[error("cannot {what}")]
    System {
        /// The operation.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A planned mount failed.
    #[error("cannot {0}")]
    Mount(String),
    /// The overlay for changes cannot be mounted.
    #[error("cannot {0}")]
    Overlay(String),
    /// The proxy does not serve the sandbox.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// bubblewrap ended before the command began.
    #[error("bubblewrap could not set up the sandbox (its message is above)")]
    Setup,
}

impl Hint for StartError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Bwrap(error) => error.hint(),
            Self::DirectoryDescriptor(_) => Some("redirect it from a file or /dev/null".into()),
            Self::Setup | Self::Mount(_) => {
                Some("run `agent-sandbox doctor` to find the cause".into())
            }
            Self::Attach(error) => error.hint.clone(),
            Self::System { .. } | Self::Overlay(_) => None,
        }
    }
}

fn cannot(what: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::System { what, source }
}

/// Runs the plan's command to its end. `gateway` serves the sandbox's egress sockets if the network is limited to a
/// list of hosts; without a gateway no host is reachable. `debug` receives the reasons why a stronger rendering was not
/// used.
pub fn run(
    plan: &Plan,
    bwrap: &Bwrap,
    renderings: &[Rendering],
    mut gateway: Option<&mut (dyn Gateway + '_)>,
    mut debug: impl FnMut(String),
) -> Result<Ended, StartError> {
    if let Some(number) = (0..3).find(|number| fd::kind(*number) == fd::Kind::Directory) {
        return Err(StartError::DirectoryDescriptor(number));
    }
    let signals = Signals::open().map_err(cannot("block signals"))?;
    let mut last = StartError::Setup;
    for rendering in renderings.iter().flat_map(|rendering| tries(*rendering)) {
        if rendering == Rendering::Bubblewrap
            && plan.cow.as_ref().is_some_and(CopyOnWrite::has_overlay)
        {
            let why = "bubblewrap alone cannot mount an overlay";
            return Err(StartError::Overlay(format!("use copy-on-write: {why}")));
        }
        // The native mounts skip a socket that was removed after planning. bubblewrap fails on one.
        let current = (rendering == Rendering::Bubblewrap).then(|| without_gone_sockets(plan));
        let plan = current.as_ref().unwrap_or(plan);
        match attempt(plan, bwrap, rendering, gateway.as_deref_mut(), &signals)? {
            Waited::Ended(code, why) => return Ok(Ended { code, why, rendering }),
            Waited::Impossible(why) | Waited::Refused(why)
                if why.starts_with(root::OVERLAY_FAILURE) =>
            {
                return Err(StartError::Overlay(why));
            }
            Waited::Impossible(why) => {
                debug(format!("cannot use {rendering:?}: {why}"));
                last = StartError::Mount(why);
            }
            Waited::Refused(why) => return Err(StartError::Mount(why)),
            Waited::NotStarted if without_gone_sockets(plan).sockets == plan.sockets => {
                return Err(StartError::Setup);
            }
            Waited::NotStarted => {
                debug("a socket was removed while the sandbox started; trying again".into());
            }
        }
    }
    Err(last)
}

fn attempt(
    plan: &Plan,
    bwrap: &Bwrap,
    rendering: Rendering,
    mut gateway: Option<&mut (dyn Gateway + '_)>,
    signals: &Signals,
) -> Result<Waited, StartError> {
    let shared = gateway.as_deref_mut().map(egress::shared).transpose()?.flatten();
    match Sandbox::start(plan, bwrap, rendering, shared) {
        Ok(mut sandbox) => sandbox.wait(plan, gateway, signals),
        Err(error) if rendering != Rendering::Bubblewrap && is_impossible(&error) => {
            Ok(Waited::Impossible(format!("create namespaces: {error}")))
        }
        Err(error) => Err(cannot("start a process")(error)),
    }
}

/// Returns the attempts for a rendering. bubblewrap gets several, because it fails if a socket is removed meanwhile, and
/// on a busy machine many are.
fn tries(rendering: Rendering) -> impl Iterator<Item = Rendering> {
    std::iter::repeat_n(rendering, if rendering == Rendering::Bubblewrap { 8 } else { 1 })
}

fn without_gone_sockets(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.sockets.retain(|socket| socket.try_exists().unwrap_or(true));
    plan
}

/// Confines this process and everything that it starts. `filter` is `None` if bubblewrap applies the seccomp filter.
pub(crate) fn confine<'f>(
    filter: Option<CgroupNamespaces>,
    mut keep: impl Iterator<Item = &'f OwnedFd>,
) -> Result<(), root::Failure> {
    let mut attempt = || {
        process::no_new_privileges()?;
        landlock::scope()?;
        if let Some(cgroups) = filter {
            seccomp::apply(cgroups)?;
        }
        fd::close_all_on_exec()?;
        keep.try_for_each(|fd| fd::inherit(fd.as_fd()))
    };
    attempt().map_err(|error| root::Failure { what: "confine the process".into(), error })
}

/// Prepares the process that becomes bubblewrap: it dies with its parent, and stops when the terminal tells it to.
pub(crate) fn follow(parent: i32) -> Result<(), root::Failure> {
    process::die_with_parent(parent)
        .and_then(|()| signal::unblock_stopping())
        // bubblewrap passes the disposition of SIGPIPE on to the process that starts the command.
        .and_then(|()| signal::restore_pipe())
        .map_err(|error| root::Failure { what: "follow the parent process".into(), error })
}

/// Reports a failure to the supervisor, and whether another rendering may succeed.
fn report_failure(sender: &OwnedFd, failure: &root::Failure) {
    let kind = if is_impossible(&failure.error) { report::IMPOSSIBLE } else { report::REFUSED };
    // If this fails, the supervisor still notices that the sandbox did not start.
    let _ = channel::send(sender.as_fd(), &report::message(kind, &failure.to_string()));
}

/// Returns true if the kernel or its configuration does not allow an operation at all.
fn is_impossible(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
        || error.raw_os_error().is_some_and(sandbox_linux::is_unsupported)
}

/// Opens a memory file for each data word, and replaces the word by the descriptor's number.
pub(crate) fn concrete(arguments: &Arguments) -> io::Result<(Vec<OsString>, Vec<OwnedFd>)> {
    let data: Vec<OwnedFd> = arguments
        .data
        .iter()
        .map(|data| fd::memory_file(&data.name, &data.content))
        .collect::<io::Result<_>>()?;
    let word = |word: &Word| match word {
        Word::Text(text) => text.clone(),
        Word::Data(index) => data[*index].as_raw_fd().to_string().into(),
    };
    Ok((arguments.words.iter().map(word).collect(), data))
}

fn program(plan: &Plan, words: Vec<OsString>, sender: &OwnedFd) -> io::Result<Program> {
    let number = sender.as_raw_fd().to_string();
    // Always `--`: a command that looks like an option is a command (CVE-2024-32462).
    // The scan takes files with a timestamp after this moment for the command's.
    let moment = clock::monotonic().to_string();
    let start =
        ["--", RUNTIME_BINARY, MULTICALL, START, &number, &moment, "--"].map(OsString::from);
    let argv = [OsString::from("bwrap")]
        .into_iter()
        .chain(words)
        .chain(start)
        .chain(plan.command.iter().cloned());
    Program::new(argv, &plan.environment.set)
}
