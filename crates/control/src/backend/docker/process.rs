//! A command in a container: started by the engine, its streams carried between the engine and pipes.
//!
//! One thread speaks to the engine; reading and writing pipes, which may wait, is others' work. What is
//! given may be shared with programs that know nothing of us, so that no descriptor is ever changed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::thread::JoinHandle;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{ResizeExecOptions, StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use bytes::Bytes;
use futures_util::StreamExt;
use sandbox_linux::pty::Size;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use crate::backend::{Connection, Ended, Exec, Process, Stream};

/// Pieces of a stream that wait for a reader.
const QUEUE: usize = 16;
const KILL: i32 = 9;

/// What is asked of a command that runs.
pub(super) enum Order {
    Signal(i32),
    Resize(Size),
}

/// Where a command is started.
pub(super) struct Where {
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
}

/// Starts a command and returns as soon as the engine has it.
pub(super) fn start(place: Where, exec: Exec) -> io::Result<Connection> {
    let (stdin, their_stdin) = input(exec.stdin)?;
    let (stdout, their_stdout) = output(exec.stdout)?;
    let (stderr, their_stderr) = if exec.terminal.is_some() {
        (None, None)
    } else {
        let (ours, theirs) = output(exec.stderr)?;
        (ours, Some(theirs))
    };
    let config = config(&place, &exec.argv, &exec.env, exec.terminal)?;
    let streams = Streams { stdin: their_stdin, stdout: their_stdout, stderr: their_stderr };
    let size = exec.terminal;
    let process = attended(move |inbox, started| {
        Box::pin(attend(place, config, size, streams, inbox, started))
    })?;
    Ok(Connection { stdin, stdout, stderr, process })
}

/// What is done beside something that runs, until its end.
type Attending = std::pin::Pin<Box<dyn Future<Output = Ended>>>;

/// Stays beside something that runs, in a thread of its own, and returns as soon as it has begun.
pub(super) fn attended(
    attend: impl FnOnce(mpsc::UnboundedReceiver<Order>, Started) -> Attending + Send + 'static,
) -> io::Result<Box<dyn Process>> {
    let (orders, inbox) = mpsc::unbounded_channel();
    let (done, signal) = pipe()?;
    let (tell, ended) = std::sync::mpsc::channel();
    let (started, is_started) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = tell.send(run(|| attend(inbox, started)));
        // Its end is what can be read.
        drop(signal);
    });
    if let Ok(Err(error)) = is_started.recv() {
        return Err(io::Error::other(error));
    }
    Ok(Box::new(Running { orders, done, ended, thread: Some(thread), over: false }))
}

pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// What the caller writes to, and what is read here.
fn input(stream: Stream) -> io::Result<(Option<OwnedFd>, OwnedFd)> {
    match stream {
        Stream::Given(fd) => Ok((None, fd)),
        Stream::Piped => pipe().map(|(reader, writer)| (Some(writer), reader)),
    }
}

/// What the caller reads from, and what is written here.
fn output(stream: Stream) -> io::Result<(Option<OwnedFd>, OwnedFd)> {
    match stream {
        Stream::Given(fd) => Ok((None, fd)),
        Stream::Piped => pipe().map(|(reader, writer)| (Some(reader), writer)),
    }
}

/// Our first process leads the command in: without the variables of the first one, without any right.
fn config(
    place: &Where,
    argv: &[std::ffi::OsString],
    env: &[(std::ffi::OsString, std::ffi::OsString)],
    terminal: Option<Size>,
) -> io::Result<ExecConfig> {
    let words = [Ok(place.init.clone()), Ok("enter".to_owned())].into_iter();
    let words = words.chain(argv.iter().map(|word| text(word)));
    let env = env.iter().map(|(name, value)| Ok(format!("{}={}", text(name)?, text(value)?)));
    // It goes there itself. The engine is told nothing that an agent could have bent.
    let cwd = text(place.cwd.as_os_str()).map(|cwd| format!("AGENT_WORKDIR={cwd}"));
    let env = env.chain([cwd]);
    Ok(ExecConfig {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(terminal.is_some()),
        env: Some(env.collect::<io::Result<_>>()?),
        cmd: Some(words.collect::<io::Result<_>>()?),
        privileged: Some(false),
        user: Some(place.user.clone()),
        working_dir: Some("/".into()),
        ..Default::default()
    })
}

/// The engine is spoken to in text. A word that is none would become another word on the way.
fn text(word: &std::ffi::OsStr) -> io::Result<String> {
    word.to_str().map(str::to_owned).ok_or_else(|| {
        let what = format!("`{}` is no text, and the engine takes nothing else", word.display());
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })
}

struct Streams {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: Option<OwnedFd>,
}

/// Where it is told that it has begun, or why not.
pub(super) type Started = std::sync::mpsc::Sender<Result<(), Error>>;

fn run(attend: impl FnOnce() -> Attending) -> Ended {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return lost(&error),
    };
    let ended = runtime.block_on(attend());
    // A thread that waits for input that never comes is not waited for.
    runtime.shutdown_background();
    ended
}

pub(super) fn lost(error: &dyn std::error::Error) -> Ended {
    Ended { code: 125, why: Some(format!("the engine has lost the command: {error}")) }
}

async fn attend(
    place: Where,
    config: ExecConfig,
    size: Option<Size>,
    streams: Streams,
    mut inbox: mpsc::UnboundedReceiver<Order>,
    started: Started,
) -> Ended {
    let place = &place;
    let (id, mut output, input) = match begin(place, config, size).await {
        Ok(begun) => begun,
        Err(error) => {
            let ended = lost(&error);
            let _ = started.send(Err(error));
            return ended;
        }
    };
    let _ = started.send(Ok(()));
    let writing = tokio::spawn(feed(streams.stdin, input));
    let (stdout, out_thread) = sink(streams.stdout);
    let errors = streams.stderr.map(sink);
    let mut orders_open = true;
    loop {
        tokio::select! {
            piece = output.next() => match piece {
                None => break,
                Some(Err(error)) => return lost(&error),
                Some(Ok(LogOutput::StdErr { message })) => match &errors {
                    Some((sender, _)) => drop(sender.send(message).await),
                    None => drop(stdout.send(message).await),
                },
                Some(Ok(other)) => drop(stdout.send(other.into_bytes()).await),
            },
            order = inbox.recv(), if orders_open => {
                // Nobody waits for it any more when nobody can give orders.
                orders_open = order.is_some();
                carry_out(place, &id, order.unwrap_or(Order::Signal(KILL))).await;
            },
        }
    }
    writing.abort();
    drop(stdout);
    let mut threads = vec![out_thread];
    threads.extend(errors.map(|(_, thread)| thread));
    // What was said is passed on before the end is told.
    let _ = tokio::task::spawn_blocking(move || {
        for thread in threads {
            let _ = thread.join();
        }
    })
    .await;
    Ended { code: code(place, &id).await, why: None }
}

type Begun = (
    String,
    std::pin::Pin<Box<dyn futures_util::Stream<Item = Result<LogOutput, Error>> + Send>>,
    std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>,
);

async fn begin(place: &Where, config: ExecConfig, size: Option<Size>) -> Result<Begun, Error> {
    let tty = size.is_some();
    let id = place.docker.create_exec(&place.container, config).await?.id;
    let options = StartExecOptions { detach: false, tty, output_capacity: Some(1 << 16) };
    match place.docker.start_exec(&id, Some(options)).await? {
        StartExecResults::Attached { output, input } => {
            if let Some(size) = size {
                carry_out(place, &id, Order::Resize(size)).await;
            }
            Ok((id, output, input))
        }
        StartExecResults::Detached => Err(Error::RequestTimeoutError),
    }
}

/// Passes the input on until its end, which the command is told of.
pub(super) async fn feed(
    stdin: OwnedFd,
    mut input: std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>,
) {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(QUEUE);
    std::thread::spawn(move || {
        let mut file = File::from(stdin);
        let mut piece = vec![0; 1 << 16];
        while let Ok(count) = file.read(&mut piece) {
            if count == 0 || sender.blocking_send(Bytes::copy_from_slice(&piece[..count])).is_err()
            {
                break;
            }
        }
    });
    while let Some(piece) = receiver.recv().await {
        if input.write_all(&piece).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
    let _ = input.shutdown().await;
}

/// A thread that writes what it is sent.
pub(super) fn sink(to: OwnedFd) -> (mpsc::Sender<Bytes>, JoinHandle<()>) {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(QUEUE);
    let thread = std::thread::spawn(move || {
        let mut file = File::from(to);
        while let Some(piece) = receiver.blocking_recv() {
            // Nobody reads any more: what comes is let go of.
            if file.write_all(&piece).is_err() {
                break;
            }
        }
    });
    (sender, thread)
}

async fn carry_out(place: &Where, id: &str, order: Order) {
    // A command that ended just now needs neither.
    match order {
        Order::Resize(Size { rows, columns }) => {
            let options = ResizeExecOptions { height: rows, width: columns };
            let _ = place.docker.resize_exec(id, options).await;
        }
        Order::Signal(signal) => {
            let _ = send(place, id, signal).await;
        }
    }
}

/// The engine sends no signals to commands: another one does, as the same user, in the same container.
async fn send(place: &Where, id: &str, signal: i32) -> Result<(), Error> {
    let mut pid = None;
    // The engine may not know yet which process it is, though the command has spoken already.
    for _ in 0..100 {
        let about = place.docker.inspect_exec(id).await?;
        pid = about.pid.and_then(inside);
        if pid.is_some() || about.exit_code.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let Some(pid) = pid else { return Ok(()) };
    let cmd = [&place.init, "signal", &signal.to_string(), &pid.to_string()].map(str::to_owned);
    let config = ExecConfig {
        cmd: Some(cmd.to_vec()),
        user: Some(place.user.clone()),
        ..Default::default()
    };
    let id = place.docker.create_exec(&place.container, config).await?.id;
    let options = StartExecOptions { detach: true, tty: false, output_capacity: None };
    place.docker.start_exec(&id, Some(options)).await.map(drop)
}

/// A process's number in its own namespace, which anybody may read.
fn inside(pid: i64) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

/// How it ended. The streams may end a moment before the engine knows.
async fn code(place: &Where, id: &str) -> u8 {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(5);
    for _ in 0..1000 {
        match place.docker.inspect_exec(id).await {
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
        match self.ended.try_recv() {
            Ok(ended) => {
                self.over = true;
                Ok(Some(ended))
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => Ok(None),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                Err(io::Error::other("the command's end was lost"))
            }
        }
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
        // The thread kills the command when nobody can give it orders any more.
        let (unused, _) = mpsc::unbounded_channel();
        drop(std::mem::replace(&mut self.orders, unused));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
