//! Carrying out a plan: spawn, forward signals, report the exit status.
//!
//! The process that started the sandbox stays beside it. bubblewrap is its direct child and dies
//! with it; signals that ask for an end are blocked in bubblewrap, so that they end the command
//! and not what stands around it. The first thing to run inside is this binary: it says its
//! process number, lets the signals through again and becomes the command.

mod start;

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sandbox_linux::channel::Awaited;
use sandbox_linux::process::{Change, Child, ProcessHandle, Program};
use sandbox_linux::seccomp::CgroupNamespaces;
use sandbox_linux::signal::{self, Signals};
use sandbox_linux::{channel, fd, landlock, memory, namespace, process, root, seccomp};
use thiserror::Error;

use crate::backend::bwrap::{Arguments, Word};
use crate::backend::find::{Bwrap, FindError};
use crate::backend::own::{Root, Veiling};
use crate::backend::{bwrap, own};
use crate::host::{Host, RUNTIME_BINARY};
use crate::plan::{CopyOnWrite, Plan, Proc};
use crate::watch::{self, Identities, Watch};
pub use start::{START, start};

/// How long a command may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// A command that lasts so many milliseconds is expected to last.
const SETTLED: u64 = 200;

/// By which means the plan is to be made true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rendering {
    /// Our own mounts, with an overlay on the home directory where the plan has one.
    Own(Veiling),
    /// Plain bubblewrap arguments.
    Plain,
}

/// The means to try, strongest first. `AGENT_SANDBOX_MOUNTS=bwrap` leaves everything to bubblewrap.
pub fn renderings(host: &Host) -> Vec<Rendering> {
    if host.var("AGENT_SANDBOX_MOUNTS").is_some_and(|value| value == "bwrap") {
        return vec![Rendering::Plain];
    }
    vec![Rendering::Own(Veiling::Overlay), Rendering::Own(Veiling::Binds), Rendering::Plain]
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The exit code to pass on.
    pub code: u8,
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
    /// bubblewrap ended before the command began.
    #[error("bubblewrap could not set up the sandbox (its message is above)")]
    Setup,
}

impl StartError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Bwrap(error) => Some(error.hint()),
            Self::DirectoryDescriptor(_) => Some("redirect it from a file or /dev/null".into()),
            Self::Setup | Self::Mount(_) => Some("`agent-sandbox doctor` names the cause".into()),
            Self::System { .. } | Self::Apart(_) => None,
        }
    }
}

fn cannot(what: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::System { what, source }
}

/// Runs the plan's command to its end. `debug` hears why a stronger rendering was not used.
pub fn run(
    plan: &Plan,
    bwrap: &Bwrap,
    renderings: &[Rendering],
    mut debug: impl FnMut(String),
) -> Result<Ended, StartError> {
    if let Some(number) = (0..3).find(|number| fd::kind(*number) == fd::Kind::Directory) {
        return Err(StartError::DirectoryDescriptor(number));
    }
    let signals = Signals::open().map_err(cannot("block signals"))?;
    let program = open_program(bwrap).map_err(cannot("open bwrap"))?;
    let mut last = StartError::Setup;
    for rendering in renderings.iter().flat_map(|rendering| tries(*rendering)) {
        if rendering == Rendering::Plain && plan.cow.as_ref().is_some_and(CopyOnWrite::has_overlay)
        {
            let why = "bubblewrap alone cannot mount an overlay";
            return Err(StartError::Apart(format!("keep changes apart: {why}")));
        }
        // Our own mounts pass over a socket that has gone since the plan was made; bubblewrap gives up.
        let current = (rendering == Rendering::Plain).then(|| without_gone_sockets(plan));
        let plan = current.as_ref().unwrap_or(plan);
        let mut sandbox = Sandbox::start(plan, &program, rendering)?;
        match sandbox.wait(plan, &signals)? {
            Waited::Ended(code) => return Ok(Ended { code, rendering }),
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

/// A socket can go away while bubblewrap is at work, too: then it is asked again.
fn tries(rendering: Rendering) -> impl Iterator<Item = Rendering> {
    std::iter::repeat_n(rendering, if rendering == Rendering::Plain { 3 } else { 1 })
}

fn without_gone_sockets(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.sockets.retain(|socket| socket.try_exists().unwrap_or(true));
    plan
}

/// bubblewrap stays as the first process inside, where `/proc/1/exe` leads to the file on the
/// host's own mount: its owner could change the mode there. The owner runs a copy in memory.
fn open_program(bwrap: &Bwrap) -> io::Result<OwnedFd> {
    let mut file = std::fs::File::open(&bwrap.path)?;
    if file.metadata()?.uid() != process::uid() {
        return Ok(file.into());
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    fd::memory_program("bwrap", &content)
}

/// What became of one attempt.
enum Waited {
    /// The command ran and ended.
    Ended(u8),
    /// The kernel does not let us do it this way.
    Impossible(String),
    /// Something is not as it was when the plan was made.
    Refused(String),
    /// bubblewrap gave up.
    NotStarted,
}

struct Sandbox {
    child: Child,
    /// Where the sandbox speaks; `None` when it has nothing more to say.
    receiver: Option<OwnedFd>,
    /// The command has begun. It may have ended by now.
    begun: bool,
    /// What went wrong before it could begin.
    failure: Option<Vec<u8>>,
    command: Option<ProcessHandle>,
    /// The first process of the sandbox's own PID namespace, which ends last.
    first: Option<ProcessHandle>,
    watch: Option<Watch>,
    /// What the watched files were before the sandbox was made.
    watched: Identities,
    asked: Option<Instant>,
    /// Nothing has happened for a while, and what waits needs little memory.
    settled: bool,
}

impl Sandbox {
    fn start(plan: &Plan, bwrap: &OwnedFd, rendering: Rendering) -> Result<Self, StartError> {
        let (receiver, sender) = channel::pair().map_err(cannot("make a channel"))?;
        let own = match rendering {
            Rendering::Own(veiling) => Some(own::root(plan, veiling, terminal().as_deref())),
            Rendering::Plain => None,
        };
        let arguments = if own.is_some() { own::arguments(plan) } else { bwrap::arguments(plan) };
        let (words, data) = concrete(&arguments).map_err(cannot("write a file in memory"))?;
        let program = program(plan, words, &sender).map_err(cannot("pass the command on"))?;
        let parent = process::pid();
        let watched = watch::identities(&plan.watched);
        let child = process::fork(|| {
            let prepared = prepare(own.as_ref(), parent).and_then(|()| {
                let keep = data.iter().chain([&sender]);
                confine(own.is_some().then_some(plan.cgroups), keep)
            });
            let error = match prepared {
                Ok(()) => root::Failure {
                    what: "start bwrap".into(),
                    error: program.exec_file(bwrap.as_fd()),
                },
                Err(error) => error,
            };
            report(&sender, &error);
            125
        });
        let child = child.map_err(cannot("start a process"))?;
        Ok(Self {
            child,
            receiver: Some(receiver),
            begun: false,
            failure: None,
            command: None,
            first: None,
            watch: None,
            watched,
            asked: None,
            settled: false,
        })
    }

    /// Waits for the end, passing on what the caller and the command say to each other.
    fn wait(&mut self, plan: &Plan, signals: &Signals) -> Result<Waited, StartError> {
        loop {
            if self.pause(signals)?
                && let Some(watch) = &mut self.watch
            {
                watch.look();
            }
            self.hear(plan)?;
            while let Some(arrived) = signals.next().map_err(cannot("read a signal"))? {
                self.pass_on(arrived);
            }
            if self.time_left() == Some(0) {
                self.child.kill().map_err(cannot("end the sandbox"))?;
            }
            match self.child.poll().map_err(cannot("wait for the sandbox"))? {
                Some(Change::Stopped) => self.stop_too(),
                Some(change) => {
                    // A short command may have begun and ended since the last look.
                    self.hear(plan)?;
                    self.end_all()?;
                    return Ok(self.ended(change));
                }
                None => {}
            }
        }
    }

    /// Waits until something happens; returns whether it is about protected files.
    fn pause(&mut self, signals: &Signals) -> Result<bool, StartError> {
        let mut fds = vec![(signals.as_fd(), Awaited::Data)];
        fds.extend(self.receiver.as_ref().map(|receiver| (receiver.as_fd(), Awaited::Data)));
        let others = fds.len();
        fds.extend(self.watch.iter().flat_map(Watch::awaited));
        let left = self.time_left();
        let limit = if self.settled { left } else { Some(left.unwrap_or(u64::MAX).min(SETTLED)) };
        let ready = channel::wait(&fds, limit).map_err(cannot("wait"))?;
        let changed = ready[others..].contains(&true);
        if !self.settled && !ready.contains(&true) {
            self.settled = true;
            memory::release_code();
        }
        Ok(changed)
    }

    /// Takes in what the sandbox has said so far.
    fn hear(&mut self, plan: &Plan) -> Result<(), StartError> {
        while let Some(receiver) = &self.receiver {
            match channel::receive(receiver.as_fd()) {
                Ok(Some(message)) if message.text.first() == Some(&b'S') => {
                    // Without a PID namespace of its own, the first process is somebody else's.
                    let own = plan.runtime.proc != Proc::Outer;
                    self.first = message.attached.filter(|_| own).map(ProcessHandle::from);
                    self.begin(plan, message.pid);
                }
                Ok(Some(message)) => self.failure = Some(message.text),
                Ok(None) => self.receiver = None,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(cannot("hear from the sandbox")(error)),
            }
        }
        Ok(())
    }

    /// The command is about to run: from now on it can be sent signals, unless it has ended already.
    fn begin(&mut self, plan: &Plan, pid: i32) {
        self.begun = true;
        self.command = ProcessHandle::open(pid).ok();
        // Where the sandbox has process numbers of its own, its first process is bubblewrap's, and
        // stays longer than the command.
        let first = match plan.runtime.proc {
            Proc::Outer => Some(pid),
            Proc::New | Proc::Guarded(_) => process::parent_of(pid),
        };
        self.watch = first.and_then(|first| Watch::open(&plan.watched, &plan.mounts, first));
        // What the host replaced before the watch began is seen by its identity.
        if let Some(watch) = &mut self.watch
            && watch::identities(&plan.watched) != self.watched
        {
            watch.look();
        }
    }

    /// bubblewrap goes as soon as the command does, and what the command left running is killed a
    /// moment later. Nobody may look at what a run left behind while it still writes.
    fn end_all(&self) -> Result<(), StartError> {
        let Some(first) = &self.first else { return Ok(()) };
        // It may have ended by itself.
        let _ = first.signal(signal::KILL);
        first.wait_for_end().map_err(cannot("wait for the sandbox"))
    }

    fn ended(&self, change: Change) -> Waited {
        match self.failure.as_deref().map(read_report) {
            Some((true, why)) => return Waited::Impossible(why),
            Some((false, why)) => return Waited::Refused(why),
            None => {}
        }
        match change {
            Change::Exited(code) if self.begun => Waited::Ended(u8::try_from(code).unwrap_or(255)),
            Change::Killed(signal) if self.begun || self.asked.is_some() => {
                Waited::Ended(u8::try_from(128 + signal).unwrap_or(255))
            }
            _ => Waited::NotStarted,
        }
    }

    fn pass_on(&mut self, arrived: signal::Arrived) {
        if !signal::ENDING.contains(&arrived.signal) {
            return;
        }
        // A key on the terminal has reached the command already, and does not always ask for its
        // end: an interpreter at its prompt takes ^C to mean something else.
        if arrived.from_terminal && !signal::is_hangup(arrived.signal) {
            return;
        }
        if self.asked.is_some() || !self.begun {
            // Asked twice, or nothing is running yet that could clean up.
            self.asked.get_or_insert_with(Instant::now);
            let _ = self.child.kill();
            return;
        }
        self.asked = Some(Instant::now());
        if let Some(command) = &self.command
            && !arrived.from_terminal
        {
            // It may have ended just now; then there is nothing to tell it.
            let _ = command.signal(arrived.signal);
        }
    }

    fn time_left(&self) -> Option<u64> {
        let asked = self.asked?;
        let left = GRACE.saturating_sub(asked.elapsed()).as_millis();
        Some(u64::try_from(left).unwrap_or(u64::MAX))
    }

    /// A command that stops its whole group cannot stop us, who stand outside its scope: do as it
    /// does, so that the shell gets its prompt back, and wake everybody afterwards.
    fn stop_too(&self) {
        if !process::is_stopped(self.child.pid()) {
            return;
        }
        let _ = process::stop_self();
        let _ = process::continue_group();
    }
}

/// Mounts, in namespaces of our own; nothing for the plain rendering.
pub(crate) fn prepare(own: Option<&Root>, parent: i32) -> Result<(), root::Failure> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error| root::Failure { what, error }
    };
    if let Some(own) = own {
        namespace::own_user_and_mounts().map_err(failed("make a user namespace"))?;
        root::read_only_stdin().map_err(failed("reopen standard input"))?;
        root::build(&own.base, &own.steps)?;
    }
    process::die_with_parent(parent).map_err(failed("follow the parent process"))
}

/// What holds for bubblewrap and everything it starts. The filter is ours to apply, unless
/// bubblewrap gets it as an argument.
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

/// A message the parent can read: whether another rendering may do better, and what went wrong.
fn report(sender: &OwnedFd, failure: &root::Failure) {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    let impossible = matches!(failure.error.kind(), InvalidInput | PermissionDenied | Unsupported)
        || failure.error.raw_os_error().is_some_and(sandbox_linux::is_unsupported);
    let text = format!("{}{failure}", if impossible { 'I' } else { 'R' });
    // Nobody is left to tell if this fails: the parent then sees a sandbox that did not start.
    let _ = channel::send(sender.as_fd(), text.as_bytes());
}

fn read_report(text: &[u8]) -> (bool, String) {
    let (kind, why) = text.split_first().unwrap_or((&b'R', &[]));
    (*kind == b'I', String::from_utf8_lossy(why).into_owned())
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
    let start = ["--", RUNTIME_BINARY, "multicall", START, &number, "--"].map(OsString::from);
    let argv = [OsString::from("bwrap")]
        .into_iter()
        .chain(words)
        .chain(start)
        .chain(plan.command.iter().cloned());
    Program::new(argv, &plan.environment.set)
}

/// The caller's terminal, by its name on the host.
fn terminal() -> Option<PathBuf> {
    (0..3).find_map(fd::terminal)
}
