//! A command that runs beside the test.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::root::Root;
use crate::run::{Line, Run};

/// How long a test waits for anything. Long, because machines are shared; only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long output may stay open once the command has ended: whoever holds it has outlived the command.
const AFTERLIFE: Duration = Duration::from_secs(5);

/// A running command. It is killed, with its process group, when the test lets go of it.
#[derive(Debug)]
pub struct Process {
    line: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Tape,
    stderr: Tape,
    _root: Arc<Root>,
}

impl Process {
    #[track_caller]
    pub(crate) fn start(line: &Line) -> Self {
        let mut command = line.command(&[]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("cannot start: {error}\n{line}"));
        let stdout = Tape::of(child.stdout.take().expect("stdout is piped"));
        let stderr = Tape::of(child.stderr.take().expect("stderr is piped"));
        Self {
            line: line.to_string(),
            stdin: child.stdin.take(),
            child,
            stdout,
            stderr,
            _root: line.root.clone(),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Writes to its input. A command that no longer reads is no failure.
    #[track_caller]
    pub fn send(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("the input is still open");
        match stdin.write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                panic!("cannot send: {error}\n{}", self.line)
            }
            _ => {}
        }
    }

    /// Ends its input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Waits until this stands in its output, after what was waited for before.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.found(self.stdout.wait_for(text), text);
    }

    /// Waits until this stands in its messages, after what was waited for before.
    #[track_caller]
    pub fn wait_for_message(&self, text: &str) {
        self.found(self.stderr.wait_for(text), text);
    }

    #[track_caller]
    fn found(&self, found: bool, text: &str) {
        let (out, err) = (self.stdout.text(), self.stderr.text());
        assert!(
            found,
            "never saw {text:?}\n{}\n--- stdout\n{out}\n--- stderr\n{err}\n---",
            self.line
        );
    }

    /// Sends a signal to it alone.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal)
            .unwrap_or_else(|error| panic!("cannot signal: {error}\n{}", self.line));
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends its input and waits for its end.
    ///
    /// # Panics
    /// When it does not end, or when its output stays open after it: something has outlived it.
    #[track_caller]
    pub fn wait(self) -> Run {
        self.wait_up_to(PATIENCE)
    }

    /// The same for a command that may take its time.
    #[track_caller]
    pub fn wait_up_to(mut self, limit: Duration) -> Run {
        self.close_input();
        let Some(status) = wait_within(&mut self.child, limit) else {
            let (out, err) = (self.stdout.text(), self.stderr.text());
            panic!(
                "no end after {limit:?}\n{}\n--- stdout\n{out}\n--- stderr\n{err}\n---",
                self.line
            )
        };
        let closed = self.stdout.wait_for_end() && self.stderr.wait_for_end();
        let (stdout, stderr) = (self.stdout.bytes(), self.stderr.bytes());
        let run = Run { line: self.line.clone(), status, stdout, stderr };
        if !closed {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            panic!("something outlived the command and holds its output\n{run}");
        }
        run
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills the process group of a child that still runs. Nothing is left to report: the test is over.
pub(crate) fn end(child: &mut Child) {
    if let Ok(None) = child.try_wait() {
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        let _ = child.wait();
    }
}

/// Waits for a child, without polling.
pub(crate) fn wait_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    if let Ok(Some(status)) = child.try_wait() {
        return Some(status);
    }
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).expect("the child is ours");
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) => return None,
            _ => return Some(child.wait().expect("the child is ours")),
        }
    }
}

/// What a command has written so far, read by a thread of its own.
#[derive(Debug, Clone)]
pub(crate) struct Tape(Arc<(Mutex<Written>, Condvar)>);

#[derive(Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    /// How much of it has been waited for.
    seen: usize,
    ended: bool,
}

impl Tape {
    pub(crate) fn of(mut source: impl Read + Send + 'static) -> Self {
        let tape = Self(Arc::default());
        let writer = tape.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                match source.read(&mut buffer) {
                    Ok(length @ 1..) => {
                        writer.update(|written| written.bytes.extend(&buffer[..length]));
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // A terminal whose last process is gone answers EIO.
                    Ok(0) | Err(_) => return writer.update(|written| written.ended = true),
                }
            }
        });
        tape
    }

    fn update(&self, change: impl FnOnce(&mut Written)) {
        change(&mut self.lock());
        self.0.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.lock().bytes).into_owned()
    }

    /// Whether the text arrives after what was waited for before.
    pub(crate) fn wait_for(&self, text: &str) -> bool {
        self.wait_until(PATIENCE, |written| {
            let fresh = &written.bytes[written.seen..];
            let Some(at) = fresh.windows(text.len()).position(|window| window == text.as_bytes())
            else {
                return written.ended.then_some(false);
            };
            written.seen += at + text.len();
            Some(true)
        })
    }

    /// Whether everybody who could write has let go of it.
    pub(crate) fn wait_for_end(&self) -> bool {
        self.wait_until(AFTERLIFE, |written| written.ended.then_some(true))
    }

    /// Asks again after every change, until there is an answer; without one the answer is no.
    fn wait_until(
        &self,
        limit: Duration,
        mut answer: impl FnMut(&mut Written) -> Option<bool>,
    ) -> bool {
        let deadline = Instant::now() + limit;
        let mut written = self.lock();
        loop {
            if let Some(answer) = answer(&mut written) {
                return answer;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            written =
                self.0.1.wait_timeout(written, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn patience() -> Duration {
        PATIENCE
    }
}
