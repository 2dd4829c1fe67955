//! Running of one command, until every process that it started has ended.

mod digest;
pub(crate) mod pump;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::descendants;
use sandbox_linux::process::Change;
use sandbox_linux::signal::{CONT, ENDING, Signals, TERM};

use crate::request::Prepared;
use pump::{Client, Meter};
use sandbox_protocol::ExitCode;

/// Time between `SIGTERM` and `SIGKILL`.
const GRACE: Duration = Duration::from_secs(2);

/// Event while a command runs.
#[derive(Debug)]
pub(crate) enum Event {
    /// The command has ended.
    Ended(Change),
    /// The client has disconnected, or this process is to end.
    Gone,
    /// Signal from the client.
    Signal(i32),
    /// The command has printed more than its limit.
    Flood,
}

/// Source of input.
#[derive(Debug)]
pub(crate) enum Input {
    /// Standard input of this process, inherited by the command.
    Own,
    /// Frames from a client.
    Frames { socket: UnixStream, client: Client },
}

/// Streams of a request.
pub(crate) struct Ends {
    pub input: Input,
    pub output: Box<dyn Write + Send>,
    pub error: Box<dyn Write + Send>,
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finished {
    /// Outcome for the log: `ended`, `timeout`, `flood` or `gone`.
    pub outcome: &'static str,
    pub code: u8,
    pub printed: u64,
    /// SHA-256 of the program's file; `None` if the file is executable but not readable.
    pub sha256: Option<String>,
}

/// Runs a command and waits until all its processes have ended. `watch` may start threads that report the client's end.
pub(crate) fn run(
    prepared: &Prepared,
    ends: Ends,
    watch: impl FnOnce(Sender<Event>),
) -> io::Result<Finished> {
    descendants::adopt_orphans()?;
    let signals = Signals::of(ENDING)?;
    let file = File::open(&prepared.program).ok();
    let mut child = spawn(prepared, &ends.input)?;
    let pid = i32::try_from(child.id()).unwrap_or(0);
    let (events, happened) = mpsc::channel();
    let meter = Arc::new(Meter { printed: AtomicU64::new(0), limit: prepared.output });
    let mut pumps = Vec::new();
    if let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) {
        pumps.push(pump::output(out, ends.output, meter.clone(), events.clone()));
        pumps.push(pump::output(err, ends.error, meter.clone(), events.clone()));
    }
    if let (Input::Frames { socket, client }, Some(stdin)) = (ends.input, child.stdin.take()) {
        pump::input(socket, client, stdin, events.clone());
    }
    tell_of_signals(signals, events.clone());
    watch(events.clone());
    thread::spawn(move || tell_of_end(pid, &events));
    // Hashes while the command runs, to add no delay.
    let hashing = thread::spawn(move || digest::of(file?).ok());
    let (outcome, code) = attend(pid, prepared, &happened);
    // No process that the command left behind outlives the request.
    let ended = descendants::end_all();
    if ended.is_ok() {
        for pump in pumps {
            let _ = pump.join();
        }
    }
    ended?;
    let sha256 = hashing.join().ok().flatten();
    Ok(Finished { outcome, code, printed: meter.printed.load(Ordering::Relaxed), sha256 })
}

fn spawn(prepared: &Prepared, input: &Input) -> io::Result<Child> {
    let mut command = sandbox_linux::process::command(&prepared.program);
    command.arg0(&prepared.argv[0]).args(&prepared.argv[1..]);
    command.env_clear().envs(prepared.env.iter().map(|(name, value)| (name, value)));
    // The kernel kills the command when this process dies: PR_SET_PDEATHSIG(2const). Its descendants are found by
    // their session.
    sandbox_linux::process::dies_with_caller(&mut command);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(match input {
        Input::Own => Stdio::inherit(),
        Input::Frames { .. } => Stdio::piped(),
    });
    command.spawn()
}

/// Waits for the command to end, or ends it.
fn attend(pid: i32, prepared: &Prepared, happened: &Receiver<Event>) -> (&'static str, u8) {
    let deadline = Instant::now() + prepared.timeout;
    loop {
        match happened.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Ended(change)) => return ("ended", code_of(change)),
            // The process group may have ended, in which case the end event is about to arrive.
            Ok(Event::Signal(signal)) if prepared.passes(signal) => {
                let _ = descendants::signal_group(pid, signal);
            }
            Ok(Event::Signal(_)) => {}
            Ok(Event::Flood) => return ("flood", finish(pid, happened, 137)),
            Ok(Event::Gone) => return ("gone", finish(pid, happened, 137)),
            Err(RecvTimeoutError::Timeout) => return ("timeout", finish(pid, happened, 124)),
            Err(RecvTimeoutError::Disconnected) => return ("gone", 137),
        }
    }
}

/// Asks the command to end and waits for a moment. The caller kills it if it is still running.
fn finish(pid: i32, happened: &Receiver<Event>, code: u8) -> u8 {
    let _ = descendants::signal_group(pid, TERM);
    // A stopped process handles no signal until it is continued.
    let _ = descendants::signal_group(pid, CONT);
    let deadline = Instant::now() + GRACE;
    while let Ok(event) = happened.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        if matches!(event, Event::Ended(_)) {
            break;
        }
    }
    code
}

fn code_of(change: Change) -> u8 {
    match change {
        Change::Exited(code) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
        Change::Killed(signal) | Change::Stopped(signal) => {
            u8::try_from(128 + signal).unwrap_or(u8::MAX)
        }
    }
}

/// Reports the end of the command. Reaps adopted orphans meanwhile.
fn tell_of_end(pid: i32, events: &Sender<Event>) {
    while let Ok(Some((ended, change))) = descendants::wait_any() {
        if ended == pid {
            let _ = events.send(Event::Ended(change));
            return;
        }
    }
}

fn tell_of_signals(signals: Signals, events: Sender<Event>) {
    thread::spawn(move || {
        while channel::wait(&[(signals.as_fd(), Awaited::Data)], None).is_ok() {
            if matches!(signals.next(), Ok(Some(_))) {
                let _ = events.send(Event::Gone);
                return;
            }
        }
    });
}

/// Result of a run, for the log and the client.
#[derive(Debug)]
pub(crate) struct Ending {
    /// Outcome for the log.
    pub outcome: &'static str,
    pub code: u8,
    pub printed: u64,
    /// Explanation, if any.
    pub reason: Option<String>,
    pub sha256: Option<String>,
}

/// Describes the result of a run.
pub(crate) fn ending(prepared: &Prepared, finished: io::Result<Finished>) -> Ending {
    let name = prepared.argv[0].display();
    match finished {
        Ok(Finished { outcome, code, printed, sha256 }) => {
            let reason = match outcome {
                "timeout" => Some(format!(
                    "`{name}` took longer than {} seconds",
                    prepared.timeout.as_secs()
                )),
                "flood" => Some(format!("`{name}` printed more than {} bytes", prepared.output)),
                _ => None,
            };
            Ending { outcome, code, printed, reason, sha256 }
        }
        Err(error) => {
            let reason = Some(format!("cannot run `{name}`: {error}"));
            Ending {
                outcome: "failed",
                code: ExitCode::NotExecutable.code(),
                printed: 0,
                reason,
                sha256: None,
            }
        }
    }
}
