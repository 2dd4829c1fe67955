//! Carries out a plan: starts the sandbox, forwards signals, reports the exit status.
//!
//! The process that started the sandbox stays beside it. What stands around the command, a process
//! of our own or bubblewrap, is its direct child and dies with it; signals that ask for an end are
//! blocked there, so that they end the command and nothing else. What becomes the command says its
//! process number first, and lets the signals through again.

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
use sandbox_linux::{channel, fd, landlock, process, root, seccomp};
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

/// By which means the plan is to be made true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rendering {
    /// Our own namespaces and mounts, with an overlay on the home directory where the plan has one.
    Own(Hiding),
    /// Arguments of bubblewrap.
    Bubblewrap,
}

/// The means to try, strongest first. `AGENT_SANDBOX_MOUNTS=bwrap` leaves everything to bubblewrap.
pub fn renderings(host: &Host) -> Vec<Rendering> {
    if host.var("AGENT_SANDBOX_MOUNTS").is_some_and(|value| value == "bwrap") {
        return vec![Rendering::Bubblewrap];
    }
    vec![Rendering::Own(Hiding::Overlay), Rendering::Own(Hiding::Binds), Rendering::Bubblewrap]
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit code to pass on.
    pub code: u8,
    /// Why there was no command to end.
    pub why: Option<String>,
    /// The means by which the sandbox was made.
    pub rendering: Rendering,
}

/// A sandbox that did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// No bubblewrap.
    #[error(transparent)]
    Bwrap(#[from] FindError),
    /// A standard descriptor is a directory.
    #[error("descriptor {0} is a directory, through which a command could leave the sandbox")]
    DirectoryDescriptor(i32),
    /// Something in our own process failed.
    #[error("cannot {what}")]
    System {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A mount that was planned cannot be made.
    #[error("cannot {0}")]
    Mount(String),
    /// The kernel does not make the overlay that changes were to go into.
    #[error("cannot {0}")]
    Apart(String),
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
            Self::Setup | Self::Mount(_) => Some("`agent-sandbox doctor` names the cause".into()),
            Self::Attach(error) => error.hint.clone(),
            Self::System { .. } | Self::Apart(_) => None,
        }
    }
}

fn cannot(what: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::System { what, source }
}

/// Runs the plan's command to its end. `gateway` serves the way out, where hosts are reached by
/// name; without one there is none. `debug` hears why a stronger rendering was not used.
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
            return Err(StartError::Apart(format!("keep changes apart: {why}")));
        }
        // Our own mounts pass over a socket that has gone since the plan was made; bubblewrap gives up.
        let current = (rendering == Rendering::Bubblewrap).then(|| without_gone_sockets(plan));
        let plan = current.as_ref().unwrap_or(plan);
        match attempt(plan, bwrap, rendering, gateway.as_deref_mut(), &signals)? {
            Waited::Ended(code, why) => return Ok(Ended { code, why, rendering }),
            Waited::Impossible(why) | Waited::Refused(why) if why.starts_with(root::APART) => {
                return Err(StartError::Apart(why));
            }
            Waited::Impossible(why) => {
                debug(format!("{rendering:?} is not possible here: {why}"));
                last = StartError::Mount(why);
            }
            Waited::Refused(why) => return Err(StartError::Mount(why)),
            Waited::NotStarted if without_gone_sockets(plan).sockets == plan.sockets => {
                return Err(StartError::Setup);
            }
            Waited::NotStarted => debug("a socket went away while the sandbox was made".into()),
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
            Ok(Waited::Impossible(format!("make namespaces: {error}")))
        }
        Err(error) => Err(cannot("start a process")(error)),
    }
}

/// Repeats bubblewrap: a socket can go away while it is at work, and on a busy machine many do.
fn tries(rendering: Rendering) -> impl Iterator<Item = Rendering> {
    std::iter::repeat_n(rendering, if rendering == Rendering::Bubblewrap { 8 } else { 1 })
}

fn without_gone_sockets(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.sockets.retain(|socket| socket.try_exists().unwrap_or(true));
    plan
}

/// What holds for everything inside. The filter is ours to apply, unless bubblewrap gets it as an
/// argument.
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

/// bubblewrap ends with us, and stops when the terminal says so.
pub(crate) fn follow(parent: i32) -> Result<(), root::Failure> {
    process::die_with_parent(parent)
        .and_then(|()| signal::unblock_stopping())
        // The command is started by another process of ours, which takes over what it finds.
        .and_then(|()| signal::restore_pipe())
        .map_err(|error| root::Failure { what: "follow the parent process".into(), error })
}

/// A message the parent can read: whether another rendering may do better, and what went wrong.
fn report_failure(sender: &OwnedFd, failure: &root::Failure) {
    let kind = if is_impossible(&failure.error) { report::IMPOSSIBLE } else { report::REFUSED };
    // Nobody is left to tell if this fails: the parent then sees a sandbox that did not start.
    let _ = channel::send(sender.as_fd(), &report::message(kind, &failure.to_string()));
}

/// Whether the kernel, or whoever set it up, does not let us do it this way.
fn is_impossible(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
        || error.raw_os_error().is_some_and(sandbox_linux::is_unsupported)
}

/// Puts descriptors behind the words that stand for them.
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
    let start = ["--", RUNTIME_BINARY, MULTICALL, START, &number, "--"].map(OsString::from);
    let argv = [OsString::from("bwrap")]
        .into_iter()
        .chain(words)
        .chain(start)
        .chain(plan.command.iter().cloned());
    Program::new(argv, &plan.environment.set)
}
