//! Command in a container. The engine starts it, and its streams are relayed between the engine and pipes.
//!
//! One thread talks to the engine, and others read and write the pipes, which may block. Given descriptors may be shared
//! with other programs, so their flags are never changed.

mod feed;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use bytes::Bytes;
use futures_util::StreamExt;
use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::pty::Size;
use sandbox_protocol::ExitCode;
use sandbox_protocol::attend::{Frame, STOPPED, terminal_argument};
use sandbox_protocol::multicall::Personality;
use sandbox_protocol::variable::AGENT_WORKDIR;
use tokio::sync::mpsc;

pub(super) use feed::{feed, sink};
use feed::{read_input, write_frames};

use crate::backend::{Connection, EndOfInput, Ended, Exec, Process, Stream};

/// Number of buffered pieces of a stream.
const QUEUE: usize = 16;
const KILL: i32 = 9;
/// Signals for a command whose output has no reader any more. The pause between them lets it clean up.
const NO_READER: [i32; 3] = [13, 15, KILL];
const BETWEEN: Duration = Duration::from_secs(2);

/// Order to a running command.
pub(super) enum Order {
    Signal(i32),
    Resize(Size),
}

/// Container and user that a command runs in.
pub(super) struct Target {
    pub(super) docker: Docker,
    pub(super) container: String,
    pub(super) user: String,
    pub(super) init: String,
    pub(super) cwd: PathBuf,
}

struct Running {
    orders: mpsc::UnboundedSender<Order>,
    done: OwnedFd,
    ended: std::sync::mpsc::Receiver<Ended>,
    thread: Option<JoinHandle<()>>,
    over: bool,
    stopped: bool,
}

/// Starts a command and returns as soon as the engine has started it.
pub(super) fn start(target: Target, exec: Exec) -> io::Result<Connection> {
    let (stdin, their_stdin) = input(exec.stdin)?;
    let (stdout, their_stdout) = output(exec.stdout)?;
    let (stderr, their_stderr) = if exec.terminal.is_some() {
        (None, None)
    } else {
        let (ours, theirs) = output(exec.stderr)?;
        (ours, Some(theirs))
    };
    let config = config(&target, &exec.argv, &exec.env, exec.terminal)?;
    let streams = Streams { stdin: their_stdin, stdout: their_stdout, stderr: their_stderr };
    let process =
        attended(move |inbox, notes| Box::pin(attend(target, config, streams, inbox, notes)))?;
    // `attend` sends the EOF character to a terminal.
    Ok(Connection { stdin, stdout, stderr, end_of_input: EndOfInput::Closed, process })
}

/// Task that accompanies a process until its end.
type Attending = std::pin::Pin<Box<dyn Future<Output = Ended>>>;

/// Runs a task in a separate thread, and returns as soon as its process has started.
pub(super) fn attended(
    attend: impl FnOnce(mpsc::UnboundedReceiver<Order>, Notes) -> Attending + Send + 'static,
) -> io::Result<Box<dyn Process>> {
    let (orders, inbox) = mpsc::unbounded_channel();
    let (done, signal) = pipe()?;
    let (tell, ended) = std::sync::mpsc::channel();
    let (started, is_started) = std::sync::mpsc::channel();
    let signal = Arc::new(signal);
    let notes = Notes { started, stopped: signal.clone() };
    let thread = std::thread::spawn(move || {
        let _ = tell.send(run(|| attend(inbox, notes)));
        // Closing the pipe makes the other end readable.
        drop(signal);
    });
    if let Ok(Err(error)) = is_started.recv() {
        return Err(io::Error::other(error));
    }
    let thread = Some(thread);
    Ok(Box::new(Running { orders, done, ended, thread, over: false, stopped: false }))
}

pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Returns the caller's end of stdin, if it is piped, and the end that is read here.
fn input(stream: Stream) -> io::Result<(Option<OwnedFd>, OwnedFd)> {
    match stream {
        Stream::Given(fd) => Ok((None, fd)),
        Stream::Piped => pipe().map(|(reader, writer)| (Some(writer), reader)),
    }
}

/// Returns the caller's end of an output, if it is piped, and the end that is written here.
fn output(stream: Stream) -> io::Result<(Option<OwnedFd>, OwnedFd)> {
    match stream {
        Stream::Given(fd) => Ok((None, fd)),
        Stream::Piped => pipe().map(|(reader, writer)| (Some(reader), writer)),
    }
}

/// Returns the engine's configuration of a command. `agent-sandbox-init attend` starts it, without the variables of PID 1
/// and without capabilities, and kills it when this process ends.
fn config(
    target: &Target,
    argv: &[std::ffi::OsString],
    env: &[(std::ffi::OsString, std::ffi::OsString)],
    terminal: Option<Size>,
) -> io::Result<ExecConfig> {
    let size = terminal_argument(terminal.map(|Size { rows, columns }| (rows, columns)));
    let words =
        [Ok(target.init.clone()), Ok(Personality::Attend.word().to_owned()), Ok(size)].into_iter();
    let words = words.chain(argv.iter().map(|word| text(word)));
    let env = env.iter().map(|(name, value)| Ok(format!("{}={}", text(name)?, text(value)?)));
    // `attend` changes the directory. The engine would resolve the path, in which the agent may have planted a symlink.
    let cwd = text(target.cwd.as_os_str()).map(|cwd| format!("{AGENT_WORKDIR}={cwd}"));
    let env = env.chain([cwd]);
    Ok(ExecConfig {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        // `attend` opens a terminal if one is wanted. An engine's terminal loses output at the end.
        tty: Some(false),
        env: Some(env.collect::<io::Result<_>>()?),
        cmd: Some(words.collect::<io::Result<_>>()?),
        privileged: Some(false),
        user: Some(target.user.clone()),
        working_dir: Some("/".into()),
        ..Default::default()
    })
}

/// Checks that an argument is UTF-8. The API is JSON, which would change any other bytes.
fn text(word: &std::ffi::OsStr) -> io::Result<String> {
    word.to_str().map(str::to_owned).ok_or_else(|| {
        let what = format!("`{}` is not valid UTF-8, which the engine requires", word.display());
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })
}

struct Streams {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: Option<OwnedFd>,
}

/// Notifications from the task to its [`Process`].
pub(super) struct Notes {
    started: std::sync::mpsc::Sender<Result<(), Error>>,
    stopped: Arc<OwnedFd>,
}

impl Notes {
    /// Reports that the process has started, or the error.
    pub(super) fn started(&self, how: Result<(), Error>) {
        let _ = self.started.send(how);
    }

    /// Reports that the command stopped and waits to be continued.
    fn stopped(&self) {
        let _ = channel::write(self.stopped.as_fd(), &[STOPPED]);
    }
}

fn run(attend: impl FnOnce() -> Attending) -> Ended {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return lost(&error),
    };
    let ended = runtime.block_on(attend());
    // Do not wait for a thread that blocks on input.
    runtime.shutdown_background();
    ended
}

pub(super) fn lost(error: &dyn std::error::Error) -> Ended {
    Ended {
        code: ExitCode::Setup.code(),
        why: Some(format!("lost the connection to the command: {error}")),
    }
}

async fn attend(
    target: Target,
    config: ExecConfig,
    streams: Streams,
    inbox: mpsc::UnboundedReceiver<Order>,
    notes: Notes,
) -> Ended {
    let (id, output, input) = match begin(&target, config).await {
        Ok(begun) => begun,
        Err(error) => {
            let ended = lost(&error);
            notes.started(Err(error));
            return ended;
        }
    };
    notes.started(Ok(()));
    let (frames, queue) = mpsc::channel(QUEUE);
    read_input(streams.stdin, frames.clone());
    let target = Arc::new(target);
    let writing = tokio::spawn(write_frames(queue, input, target.clone(), id.clone()));
    let (stdout, out_thread) = sink(streams.stdout);
    let (stderr, err_thread) = streams.stderr.map(sink).unzip();
    let mut attended = Attended { target: &target, id: &id, inbox, notes, frames, unread: 0 };
    let passed = attended.pass_on(output, [Some(stdout), stderr]).await;
    writing.abort();
    if let Err(error) = passed {
        return lost(&error);
    }
    // Deliver all output before the end is reported.
    let _ = tokio::task::spawn_blocking(move || {
        for thread in [Some(out_thread), err_thread].into_iter().flatten() {
            let _ = thread.join();
        }
    })
    .await;
    Ended { code: code(&target, &id).await, why: None }
}

type Output = std::pin::Pin<Box<dyn futures_util::Stream<Item = Result<LogOutput, Error>> + Send>>;
type Input = std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>;

/// Running command, in the thread that talks to the engine.
struct Attended<'a> {
    target: &'a Target,
    id: &'a str,
    inbox: mpsc::UnboundedReceiver<Order>,
    notes: Notes,
    frames: mpsc::Sender<Bytes>,
    /// Number of signals sent because its output has no reader.
    unread: usize,
}

impl Attended<'_> {
    /// Relays output and orders until the output ends.
    async fn pass_on(
        &mut self,
        mut output: Output,
        sinks: [Option<mpsc::Sender<Bytes>>; 2],
    ) -> Result<(), Error> {
        let [stdout, stderr] = &sinks;
        let mut waiting: Option<(&mpsc::Sender<Bytes>, Bytes)> = None;
        let mut orders_open = true;
        loop {
            let full = waiting.as_ref().map(|(sink, _)| *sink);
            tokio::select! {
                piece = output.next(), if full.is_none() => match piece {
                    None => return Ok(()),
                    Some(Err(error)) => return Err(error),
                    Some(Ok(LogOutput::StdErr { message })) => match stderr {
                        Some(sink) => waiting = Some((sink, message)),
                        None => waiting = stdout.as_ref().zip(self.on_stderr(&message)),
                    },
                    Some(Ok(other)) => waiting = stdout.as_ref().zip(Some(other.into_bytes())),
                },
                room = reserve(full), if full.is_some() => match (room, waiting.take()) {
                    (Some(room), Some((_, piece))) => room.send(piece),
                    // The kernel would send SIGPIPE if the command wrote to the pipe directly: pipe(7).
                    _ => self.no_reader().await,
                },
                order = self.inbox.recv(), if orders_open => {
                    // The caller is gone.
                    orders_open = order.is_some();
                    self.carry_out(order.unwrap_or(Order::Signal(KILL))).await;
                },
                () = tokio::time::sleep(BETWEEN), if (1..NO_READER.len()).contains(&self.unread) => {
                    self.no_reader().await;
                },
            }
        }
    }

    /// Handles stderr of a command on a terminal. `attend` uses it only to report that the command stopped, or why it did not
    /// start.
    fn on_stderr(&self, message: &Bytes) -> Option<Bytes> {
        if message.iter().all(|byte| *byte == STOPPED) {
            self.notes.stopped();
            return None;
        }
        Some(Bytes::from(String::from_utf8_lossy(message).replace('\n', "\r\n")))
    }

    async fn no_reader(&mut self) {
        if let Some(signal) = NO_READER.get(self.unread) {
            self.unread += 1;
            self.carry_out(Order::Signal(*signal)).await;
        }
    }

    async fn carry_out(&self, order: Order) {
        // Errors are ignored: the command may have just ended.
        match order {
            Order::Resize(Size { rows, columns }) => {
                let (frames, size) = (self.frames.clone(), Frame::resize((rows, columns)));
                // The queue may be full of input that the command does not read.
                tokio::spawn(async move { frames.send(size.into()).await });
            }
            Order::Signal(signal) => {
                let _ = send(self.target, self.id, signal).await;
            }
        }
    }
}

/// Waits for capacity; `None` when the reader is gone.
async fn reserve(sink: Option<&mpsc::Sender<Bytes>>) -> Option<mpsc::Permit<'_, Bytes>> {
    match sink {
        Some(sink) => sink.reserve().await.ok(),
        None => std::future::pending().await,
    }
}

async fn begin(target: &Target, config: ExecConfig) -> Result<(String, Output, Input), Error> {
    let id = target.docker.create_exec(&target.container, config).await?.id;
    let options = StartExecOptions { detach: false, tty: false, output_capacity: Some(1 << 16) };
    match target.docker.start_exec(&id, Some(options)).await? {
        StartExecResults::Attached { output, input } => Ok((id, output, input)),
        StartExecResults::Detached => Err(Error::RequestTimeoutError),
    }
}

/// Sends a signal to a command. The API cannot do that, so another command does, as the same user in the same container.
async fn send(target: &Target, id: &str, signal: i32) -> Result<(), Error> {
    let Some(pid) = attendant(target, id).await? else { return Ok(()) };
    let config =
        beside(target, &[Personality::Signal.word(), &signal.to_string(), &pid.to_string()]);
    let id = target.docker.create_exec(&target.container, config).await?.id;
    let options = StartExecOptions { detach: true, tty: false, output_capacity: None };
    target.docker.start_exec(&id, Some(options)).await.map(drop)
}

/// Returns the pid, inside, of the `attend` process of a command; `None` if it has ended.
async fn attendant(target: &Target, id: &str) -> Result<Option<i32>, Error> {
    // The engine may not know the pid yet, even if output has arrived.
    for _ in 0..100 {
        let about = target.docker.inspect_exec(id).await?;
        let pid = about.pid.and_then(inside);
        if pid.is_some() || about.exit_code.is_some() {
            return Ok(pid);
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    Ok(None)
}

/// Returns the configuration of an auxiliary `agent-sandbox-init` process.
fn beside(target: &Target, words: &[&str]) -> ExecConfig {
    let cmd = [target.init.as_str()].iter().chain(words).map(|word| (*word).to_owned()).collect();
    ExecConfig { cmd: Some(cmd), user: Some(target.user.clone()), ..Default::default() }
}

/// Returns a process's pid in its own PID namespace: `proc_pid_status(5)`, `NSpid`. The file is readable for all users.
fn inside(pid: i64) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

/// Returns the exit code. The streams may end shortly before the engine knows it.
async fn code(target: &Target, id: &str) -> u8 {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(5);
    for _ in 0..1000 {
        match target.docker.inspect_exec(id).await {
            Ok(about) if about.running == Some(true) => tokio::time::sleep(PAUSE).await,
            Ok(about) => {
                return about.exit_code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255);
            }
            Err(_) => return 255,
        }
    }
    255
}

impl Process for Running {
    fn awaited(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }

    fn poll(&mut self) -> io::Result<Option<Ended>> {
        if channel::wait(&[(self.done.as_fd(), Awaited::Data)], Some(0))? == [true] {
            self.stopped |= channel::read(self.done.as_fd(), &mut [0; 16])? > 0;
        }
        match self.ended.try_recv() {
            Ok(ended) => {
                self.over = true;
                Ok(Some(ended))
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => Ok(None),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                Err(io::Error::other("cannot determine how the command ended"))
            }
        }
    }

    fn stopped(&mut self) -> bool {
        std::mem::take(&mut self.stopped)
    }

    fn signal(&mut self, signal: i32) -> io::Result<()> {
        self.orders.send(Order::Signal(signal)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn resize(&mut self, size: Size) -> io::Result<()> {
        self.orders.send(Order::Resize(size)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // The thread kills the command when the order channel closes.
        let (unused, _) = mpsc::unbounded_channel();
        drop(std::mem::replace(&mut self.orders, unused));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
