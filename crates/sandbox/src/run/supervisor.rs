//! Supervisor of a running sandbox: the process that started it waits beside it.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sandbox_linux::channel::{Awaited, Message};
use sandbox_linux::enclosure::Ids;
use sandbox_linux::namespace::Inside;
use sandbox_linux::process::{Change, Child, ProcessHandle};
use sandbox_linux::root::Failure;
use sandbox_linux::signal::{self, Signals};
use sandbox_linux::{channel, fd, memory, process};
use sandbox_protocol::exit::{ExitCode, by_signal};
use sandbox_protocol::report;

use super::egress::{self, Egress, Gateway};
use super::watch::{self, Identities, Watch};
use super::{
    Rendering, StartError, cannot, concrete, confine, first_process, follow, program,
    report_failure,
};
use crate::plan::{Plan, Proc};
use crate::render::find::Bwrap;
use crate::render::{bwrap, own};

/// How long a command may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// How long a command may take to stop after bubblewrap did. One that does not want to stop never does.
const STOPPING: Duration = Duration::from_millis(200);

/// A command that lasts so many milliseconds is expected to last.
const SETTLED: u64 = 200;

/// What became of one attempt.
pub(super) enum Waited {
    /// The command ran and ended, or says why it could not run.
    Ended(u8, Option<String>),
    /// The kernel does not let us do it this way.
    Impossible(String),
    /// Something is not as it was when the plan was made.
    Refused(String),
    /// bubblewrap gave up.
    NotStarted,
}

pub(super) struct Sandbox {
    /// What stands around the command: its first process, or bubblewrap.
    child: Child,
    /// Whether that is a process of our own.
    own: bool,
    /// Where the sandbox speaks; `None` when it has nothing more to say.
    receiver: Option<OwnedFd>,
    /// The command, by its number, once it has begun. It may have ended by now.
    begun: Option<i32>,
    /// What went wrong before it could begin.
    failure: Option<Vec<u8>>,
    /// Why it could not be executed.
    why: Option<String>,
    command: Option<ProcessHandle>,
    /// The first process of the sandbox's own PID namespace, which ends last, when it is not `child`.
    first: Option<ProcessHandle>,
    watch: Option<Watch>,
    /// The way out, where hosts are reached by name.
    egress: Option<Egress>,
    /// What the watched files were before the sandbox was made.
    watched: Identities,
    asked: Option<Instant>,
    /// Nothing has happened for a while, and what waits needs little memory.
    settled: bool,
}

impl Sandbox {
    /// Starts it. `shared` serves the sockets of a command that shares the host's network.
    pub(super) fn start(
        plan: &Plan,
        bwrap: &Bwrap,
        rendering: Rendering,
        shared: Option<Egress>,
    ) -> io::Result<Self> {
        let (receiver, sender) = channel::pair()?;
        let watched = watch::identities(&plan.watched);
        let (own, child) = match rendering {
            Rendering::Own(hiding) => {
                let root = own::root(plan, hiding, terminal().as_deref());
                (true, first_process::start(plan, &root, &sender)?)
            }
            Rendering::Bubblewrap => (false, start_bwrap(plan, bwrap, &sender)?),
        };
        Ok(Self {
            child,
            own,
            receiver: Some(receiver),
            begun: None,
            failure: None,
            why: None,
            command: None,
            first: None,
            watch: None,
            egress: shared,
            watched,
            asked: None,
            settled: false,
        })
    }

    /// Waits for the end, passing on what the caller and the command say to each other.
    pub(super) fn wait(
        &mut self,
        plan: &Plan,
        mut gateway: Option<&mut (dyn Gateway + '_)>,
        signals: &Signals,
    ) -> Result<Waited, StartError> {
        loop {
            if self.pause(signals)?
                && let Some(watch) = &mut self.watch
            {
                watch.look();
            }
            self.hear(plan)?;
            self.serve(gateway.as_deref_mut())?;
            while let Some(arrived) = signals.next().map_err(cannot("read a signal"))? {
                self.pass_on(arrived);
            }
            if self.time_left() == Some(0) {
                self.child.kill().map_err(cannot("end the sandbox"))?;
            }
            match self.child.poll().map_err(cannot("wait for the sandbox"))? {
                // Only whoever holds a sandbox still for a moment stops its first process.
                Some(Change::Stopped(_)) if self.own => {}
                Some(Change::Stopped(signal)) => self.stop_with_bwrap(signal),
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

    /// Keeps the sockets of the sandbox served, and lets it begin once they are. Without a gateway they
    /// never are, and it begins all the same.
    fn serve(&mut self, gateway: Option<&mut (dyn Gateway + '_)>) -> Result<(), StartError> {
        let Some(egress) = &mut self.egress else { return Ok(()) };
        if let Some(Err(error)) = gateway.map(|gateway| egress.serve(gateway)) {
            // Nothing of the command has run. A failure to end what waits for it does not hide the first one.
            let _ = self.child.kill().and_then(|()| self.child.wait());
            return Err(StartError::Attach(error));
        }
        let told = egress.let_begin(self.receiver.as_ref().map(AsFd::as_fd));
        // A sandbox that ended meanwhile is noticed by its end.
        match told {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(cannot("let the sandbox begin")(error))
            }
            _ => Ok(()),
        }
    }

    /// Waits until something happens; returns whether it is about protected files.
    fn pause(&mut self, signals: &Signals) -> Result<bool, StartError> {
        let mut fds = vec![(signals.as_fd(), Awaited::Data)];
        fds.extend(self.receiver.as_ref().map(|receiver| (receiver.as_fd(), Awaited::Data)));
        let server = self.egress.as_ref().and_then(Egress::awaited);
        fds.extend(server.map(|server| (server, Awaited::Data)));
        let others = fds.len();
        fds.extend(self.watch.iter().flat_map(Watch::awaited));
        let settled = if self.settled { None } else { Some(SETTLED) };
        let limits = [self.time_left(), self.egress.as_ref().and_then(Egress::time_left), settled];
        let limit = limits.into_iter().flatten().min();
        let ready = channel::wait(&fds, limit).map_err(cannot("wait"))?;
        let changed = ready[others..].contains(&true);
        let lost = server.is_some() && ready[others - 1];
        if let Some(egress) = self.egress.as_mut().filter(|_| lost) {
            egress.lose();
        }
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
                Ok(Some(message)) => self.take(plan, message),
                Ok(None) => self.receiver = None,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(cannot("hear from the sandbox")(error)),
            }
        }
        Ok(())
    }

    fn take(&mut self, plan: &Plan, message: Message) {
        match message.text.split_first() {
            Some((&report::STARTED, _)) => self.begin(plan, message),
            Some((&report::SOCKETS, _)) => {
                self.egress = Some(Egress::new(message.pid, message.attached));
            }
            Some((&report::STOPPED, [signal, ..])) => self.stop_too(i32::from(*signal)),
            Some((&report::FAILED, why)) => {
                self.why = Some(String::from_utf8_lossy(why).into_owned());
            }
            _ => self.failure = Some(message.text),
        }
    }

    /// The command is about to run: from now on it can be sent signals, unless it has ended already.
    fn begin(&mut self, plan: &Plan, message: Message) {
        let Message { pid, mut attached, .. } = message;
        self.begun = Some(pid);
        self.command = ProcessHandle::open(pid).ok();
        if !self.own && plan.runtime.proc != Proc::Outer {
            self.first = attached.pop().map(ProcessHandle::from);
        }
        if plan.watched.is_empty() {
            return;
        }
        let inside = if self.own {
            attached.try_into().ok().and_then(|sent| Inside::received(sent).ok())
        } else {
            // Where the sandbox has process numbers of its own, its first process is bubblewrap's,
            // and stays longer than the command.
            let first = self.first.as_ref().and_then(|_| process::parent_of(pid)).unwrap_or(pid);
            Inside::of(first).ok()
        };
        self.watch = inside.map(|inside| Watch::open(&plan.watched, &plan.mounts, inside));
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
            Change::Exited(code) if self.begun.is_some() => {
                Waited::Ended(u8::try_from(code).unwrap_or(255), self.why.clone())
            }
            Change::Killed(signal) if self.begun.is_some() || self.asked.is_some() => {
                Waited::Ended(by_signal(signal), None)
            }
            _ => Waited::NotStarted,
        }
    }

    fn pass_on(&mut self, arrived: signal::Arrived) {
        if signal::is_stopping(arrived.signal) && !arrived.from_terminal {
            self.ask_to_stop(arrived.signal);
        }
        if !signal::ENDING.contains(&arrived.signal) {
            return;
        }
        // A key on the terminal has reached the command already, and does not always ask for its
        // end: an interpreter at its prompt takes ^C to mean something else.
        if arrived.from_terminal && !signal::is_hangup(arrived.signal) {
            return;
        }
        if self.asked.is_some() || self.begun.is_none() {
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

    /// Somebody wants this job to stop, which is the command's to decide.
    fn ask_to_stop(&self, signal: i32) {
        if let Some(command) = &self.command {
            // It may have ended just now; then there is nothing to stop.
            let _ = command.signal(signal);
        }
        if !self.own {
            self.stop_with_bwrap(signal);
        }
    }

    /// bubblewrap stops for itself, and may be ahead of the command, which would still take what
    /// is typed for the shell.
    fn stop_with_bwrap(&self, signal: i32) {
        let is_stopped = || self.begun.is_none_or(process::is_stopped);
        let end = Instant::now() + STOPPING;
        while !is_stopped() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        if is_stopped() || process::is_stopped(self.child.pid()) {
            stop(signal);
        }
    }

    /// The command has stopped. Do as it does, so that the shell gets its prompt back; but not when
    /// it was stopped by hand, by somebody who knows it alone and would not wake us.
    fn stop_too(&self, signal: i32) {
        let by_the_terminal = signal::is_stopping(signal) || process::is_in_front();
        // It may have been woken since.
        if by_the_terminal && self.begun.is_some_and(process::is_stopped) {
            stop(signal);
        }
    }
}

/// Stops, and wakes everybody afterwards: whoever wakes us may not have woken the others.
fn stop(signal: i32) {
    let _ = process::stop_self(signal);
    let _ = process::continue_group();
}

/// Starts bubblewrap, which does all the rest.
fn start_bwrap(plan: &Plan, bwrap: &Bwrap, sender: &OwnedFd) -> io::Result<Child> {
    let (mut words, data) = concrete(&bwrap::arguments(plan))?;
    let network = plan.egress.as_ref().map(|_| Ids::own(None));
    if network.is_some() {
        // It is made already, and what listens in it is ours.
        words.retain(|word| word != "--unshare-net");
    }
    let (file, program) = (open_program(bwrap)?, program(plan, words, sender)?);
    let parent = process::pid();
    process::fork(|| {
        let prepared = network
            .map_or(Ok(()), |ids| egress::make(&ids, parent, sender.as_fd()))
            .and_then(|()| follow(parent))
            .and_then(|()| confine(None, data.iter().chain([sender])));
        let failure = match prepared {
            Ok(()) => {
                Failure { what: "start bwrap".into(), error: program.exec_file(file.as_fd()) }
            }
            Err(failure) => failure,
        };
        report_failure(sender, &failure);
        ExitCode::Setup.into()
    })
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

fn read_report(text: &[u8]) -> (bool, String) {
    let (first, why) = text.split_first().unwrap_or((&report::REFUSED, &[]));
    (*first == report::IMPOSSIBLE, String::from_utf8_lossy(why).into_owned())
}

/// The caller's terminal, by its name on the host.
fn terminal() -> Option<PathBuf> {
    (0..3).find_map(fd::terminal)
}
