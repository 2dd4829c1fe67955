//! Processes that run in the background of a test.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::root::Root;
use crate::run::{Line, Run};

/// Time limit of all waits. It is long because machines are shared. Only failures take this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time limit for output to be closed after the command has exited. A process that holds it has outlived the command.
const AFTERLIFE: Duration = Duration::from_secs(5);

/// Running command. Its process group is killed when the value is dropped.
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

    /// Returns the process ID.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Writes to the command's input. Does not fail when the command no longer reads.
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

    /// Closes the command's input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Waits for a text in stdout, after the text of the last wait.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.assert_seen(self.stdout.wait_for(text), text);
    }

    /// Waits for a text in stderr, after the text of the last wait.
    #[track_caller]
    pub fn wait_for_message(&self, text: &str) {
        self.assert_seen(self.stderr.wait_for(text), text);
    }

    #[track_caller]
    fn assert_seen(&self, seen: bool, text: &str) {
        let (out, err) = (self.stdout.text(), self.stderr.text());
        assert!(
            seen,
            "never saw {text:?}\n{}\n--- stdout\n{out}\n--- stderr\n{err}\n---",
            self.line
        );
    }

    /// Sends a signal to the process, but not to its group.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal)
            .unwrap_or_else(|error| panic!("cannot signal: {error}\n{}", self.line));
    }

    /// Returns true when the process has not exited yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Closes the input and waits for the process to exit.
    ///
    /// # Panics
    /// When it does not exit, or when another process keeps its output open.
    #[track_caller]
    pub fn wait(self) -> Run {
        self.wait_up_to(PATIENCE)
    }

    /// Like [`Process::wait`], with another time limit.
    #[track_caller]
    pub fn wait_up_to(mut self, limit: Duration) -> Run {
        self.close_input();
        let Some(status) = wait_within(&mut self.child, limit) else {
            let (out, err) = (self.stdout.text(), self.stderr.text());
            panic!(
                "still running after {limit:?}\n{}\n--- stdout\n{out}\n--- stderr\n{err}\n---",
                self.line
            )
        };
        let closed = self.stdout.wait_for_end() && self.stderr.wait_for_end();
        let (stdout, stderr) = (self.stdout.bytes(), self.stderr.bytes());
        let run = Run { line: self.line.clone(), status, stdout, stderr };
        if !closed {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            panic!("another process outlived the command and holds its output\n{run}");
        }
        run
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills the process group of a child that is still running. Errors are ignored, because the test is over.
pub(crate) fn end(child: &mut Child) {
    if let Ok(None) = child.try_wait() {
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        let _ = child.wait();
    }
}

/// Waits for a child without polling.
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

/// Output of a command so far, read by a thread.
#[derive(Debug, Clone)]
pub(crate) struct Tape(Arc<(Mutex<Written>, Condvar)>);

#[derive(Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    /// Length of the part that was already waited for.
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
                    // Reading from a terminal without processes fails with EIO.
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

    /// Waits for a text after that of the last wait. Returns false if it does not arrive.
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

    /// Waits for all writers to close the output. Returns false on a timeout.
    pub(crate) fn wait_for_end(&self) -> bool {
        self.wait_until(AFTERLIFE, |written| written.ended.then_some(true))
    }

    /// Calls `answer` after every change until it returns a value. Returns false on a timeout.
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
