//! Supervisor of a running sandbox, in the process that started it.

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

/// Time between the signal that asks a command to end and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// Time to wait for the command to stop after bubblewrap did. A command that ignores the signal never stops.
const STOPPING: Duration = Duration::from_millis(200);

/// Milliseconds without an event after which a command is expected to run for long.
const SETTLED: u64 = 200;

/// Result of one attempt.
pub(super) enum Waited {
    /// The command ended with this exit code, or could not be executed for this reason.
    Ended(u8, Option<String>),
    /// The kernel does not support this rendering.
    Impossible(String),
    /// The setup failed, and another rendering would fail too.
    Refused(String),
    /// bubblewrap gave up.
    NotStarted,
}

/// Running sandbox, as its supervisor sees it.
pub(super) struct Sandbox {
    /// The first process of a native sandbox, or bubblewrap.
    child: Child,
    /// True if `child` is the first process of a native sandbox.
    own: bool,
    /// Receiving end of the channel; `None` once the sandbox has closed its end.
    receiver: Option<OwnedFd>,
    /// PID of the command, once it has started. The command may have ended since.
    started: Option<i32>,
    /// Failure report from before the command started.
    failure: Option<Vec<u8>>,
    /// The reason why the command could not be executed.
    why: Option<String>,
    command: Option<ProcessHandle>,
    /// PID 1 of the sandbox's PID namespace, if it is not `child`. It ends last.
    first: Option<ProcessHandle>,
    watch: Option<Watch>,
    /// Egress, if the network is limited to a list of hosts.
    egress: Option<Egress>,
    /// Identities of the watched files before the sandbox started.
    watched: Identities,
    /// Time at which the command was asked to end.
    asked: Option<Instant>,
    /// True once nothing has happened for a while and unneeded memory was released.
    settled: bool,
}

impl Sandbox {
    /// Starts a sandbox. `shared` serves the sockets of a command that shares the host's network.
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
            started: None,
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

    /// Waits for the end of the command. Forwards signals, serves the egress and restores lost protection meanwhile.
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
                watch.restore();
            }
            self.receive(plan)?;
            self.serve(gateway.as_deref_mut())?;
            while let Some(arrived) = signals.next().map_err(cannot("read a signal"))? {
                self.forward(arrived);
            }
            if self.time_left() == Some(0) {
                self.child.kill().map_err(cannot("end the sandbox"))?;
            }
            match self.child.poll().map_err(cannot("wait for the sandbox"))? {
                // The first process stops only when the sandbox is frozen for a moment.
                Some(Change::Stopped(_)) if self.own => {}
                Some(Change::Stopped(signal)) => self.stop_with_bwrap(signal),
                Some(change) => {
                    // A short command may have started and ended since the last call.
                    self.receive(plan)?;
                    self.end_all()?;
                    return Ok(self.ended(change));
                }
                None => {}
            }
        }
    }

    /// Attaches the sandbox's sockets to the proxy, then lets the command start. Without a gateway the command starts
    /// although nothing serves the sockets.
    fn serve(&mut self, gateway: Option<&mut (dyn Gateway + '_)>) -> Result<(), StartError> {
        let Some(egress) = &mut self.egress else { return Ok(()) };
        if let Some(Err(error)) = gateway.map(|gateway| egress.serve(gateway)) {
            // The command has not started. A failure to kill the waiting process must not hide the first error.
            let _ = self.child.kill().and_then(|()| self.child.wait());
            return Err(StartError::Attach(error));
        }
        let released = egress.release(self.receiver.as_ref().map(AsFd::as_fd));
        // EPIPE: the sandbox has ended meanwhile, which is handled when the child is polled.
        match released {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(cannot("let the command start")(error))
            }
            _ => Ok(()),
        }
    }

    /// Waits for an event. Returns true if it concerns protected files.
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

    /// Receives and handles the messages that the sandbox has sent so far.
    fn receive(&mut self, plan: &Plan) -> Result<(), StartError> {
        while let Some(receiver) = &self.receiver {
            match channel::receive(receiver.as_fd()) {
                Ok(Some(message)) => self.handle(plan, message),
                Ok(None) => self.receiver = None,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(cannot("receive from the sandbox")(error)),
            }
        }
        Ok(())
    }

    fn handle(&mut self, plan: &Plan, message: Message) {
        match message.text.split_first() {
            Some((&report::STARTED, _)) => self.command_started(plan, message),
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

    /// Records the command, which can be sent signals from now on, and starts to watch protected files.
    fn command_started(&mut self, plan: &Plan, message: Message) {
        let Message { pid, mut attached, .. } = message;
        self.started = Some(pid);
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
            // In a separate PID namespace, PID 1 is bubblewrap and outlives the command.
            let first = self.first.as_ref().and_then(|_| process::parent_of(pid)).unwrap_or(pid);
            Inside::of(first).ok()
        };
        self.watch = inside.map(|inside| Watch::open(&plan.watched, &plan.mounts, inside));
        // A file that the host replaced before the watch started has a different identity.
        if let Some(watch) = &mut self.watch
            && watch::identities(&plan.watched) != self.watched
        {
            watch.restore();
        }
    }

    /// Waits until every process of the sandbox has ended.
    ///
    /// bubblewrap exits with the command, and the kernel kills the command's background processes a moment later:
    /// `pid_namespaces(7)`. The
    /// scan after the run must not start while they can still write.
    fn end_all(&self) -> Result<(), StartError> {
        let Some(first) = &self.first else { return Ok(()) };
        // It may have ended already.
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
            Change::Exited(code) if self.started.is_some() => {
                Waited::Ended(u8::try_from(code).unwrap_or(255), self.why.clone())
            }
            Change::Killed(signal) if self.started.is_some() || self.asked.is_some() => {
                Waited::Ended(by_signal(signal), None)
            }
            _ => Waited::NotStarted,
        }
    }

    /// Forwards a signal to the command.
    fn forward(&mut self, arrived: signal::Arrived) {
        if signal::is_stopping(arrived.signal) && !arrived.from_terminal {
            self.ask_to_stop(arrived.signal);
        }
        if !signal::ENDING.contains(&arrived.signal) {
            return;
        }
        // The terminal has already sent this signal to the command's process group. It does not always mean the end:
        // an interpreter cancels its input line at ^C.
        if arrived.from_terminal && !signal::is_hangup(arrived.signal) {
            return;
        }
        if self.asked.is_some() || self.started.is_none() {
            // The second request, or no command that could clean up has started yet.
            self.asked.get_or_insert_with(Instant::now);
            let _ = self.child.kill();
            return;
        }
        self.asked = Some(Instant::now());
        if let Some(command) = &self.command
            && !arrived.from_terminal
        {
            // Fails if the command has just ended.
            let _ = command.signal(arrived.signal);
        }
    }

    fn time_left(&self) -> Option<u64> {
        let asked = self.asked?;
        let left = GRACE.saturating_sub(asked.elapsed()).as_millis();
        Some(u64::try_from(left).unwrap_or(u64::MAX))
    }

    /// Forwards a stop signal to the command, which decides if it stops.
    fn ask_to_stop(&self, signal: i32) {
        if let Some(command) = &self.command {
            // Fails if the command has just ended.
            let _ = command.signal(signal);
        }
        if !self.own {
            self.stop_with_bwrap(signal);
        }
    }

    /// Stops this process once the command has stopped. bubblewrap may stop before the command, which would then still
    /// read input that is meant for the shell.
    fn stop_with_bwrap(&self, signal: i32) {
        let is_stopped = || self.started.is_none_or(process::is_stopped);
        let end = Instant::now() + STOPPING;
        while !is_stopped() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        if is_stopped() || process::is_stopped(self.child.pid()) {
            stop(signal);
        }
    }

    /// Stops this process because the command has stopped, so that the shell shows its prompt. A process that stopped
    /// the command alone, with kill(2), would resume only the command, so this process then keeps running.
    fn stop_too(&self, signal: i32) {
        let by_the_terminal = signal::is_stopping(signal) || process::is_foreground();
        // The command may have been resumed since.
        if by_the_terminal && self.started.is_some_and(process::is_stopped) {
            stop(signal);
        }
    }
}

/// Stops this process. When it is resumed, it resumes its process group, because SIGCONT may have been sent to this
/// process alone.
fn stop(signal: i32) {
    let _ = process::stop_self(signal);
    let _ = process::continue_group();
}

/// Starts bubblewrap.
fn start_bwrap(plan: &Plan, bwrap: &Bwrap, sender: &OwnedFd) -> io::Result<Child> {
    let (mut words, data) = concrete(&bwrap::arguments(plan))?;
    let network = plan.egress.as_ref().map(|_| Ids::own(None));
    if network.is_some() {
        // The network namespace exists already, with the proxy's sockets in it.
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

/// Opens the bubblewrap program, or a copy in memory if the caller owns the file.
///
/// bubblewrap remains as PID 1 inside, so `/proc/1/exe` refers to the file on the host's mount, where the owner could
/// change its mode: proc(5).
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

/// Returns the path of the caller's terminal on the host.
fn terminal() -> Option<PathBuf> {
    (0..3).find_map(fd::terminal)
}
