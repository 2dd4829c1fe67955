//! Command in a session over a WebSocket: output, input, signals, terminal sizes, exit code.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::extract::{FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::{SinkExt, StreamExt};
use sandbox_linux::{channel, pty, socket};
use sandbox_protocol::ExitCode;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio_tungstenite::tungstenite::Message;

use super::Shared;
use super::answer::{Refused, blocking, find};
use super::extract::Named;
use super::openapi::{Describe, Operation};
use super::websocket::{self, Socket};
use super::wire::{self, Control, Exit, Problem};
use crate::backend::{Connection, EndOfInput, Ended, Exec, Process, Stream};

/// Amount of buffered input above which no more is read from the caller.
const TYPED: usize = 1 << 20;
/// Time to wait for a command that does not read its input. After that, messages are read again, because a signal or a
/// close may be queued behind the input.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum input that such a command may leave unread.
const UNREAD: usize = 8 << 20;
/// Exit code of a command that was killed.
const KILLED: u8 = 137;
/// Size of a read.
const STEP: usize = 32 << 10;

/// WebSocket request. Its message types are described along with it.
pub(super) struct Handshake(Request);

impl<S: Send + Sync> FromRequest<S> for Handshake {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        Ok(Self(request))
    }
}

impl Describe for Handshake {
    fn describe(operation: &mut Operation<'_>) {
        operation.problems(&[426, 429]);
        for message in
            [Operation::json::<wire::Exec>, Operation::json::<Control>, Operation::json::<Exit>]
        {
            message(operation);
        }
    }
}

/// Response that switches to the WebSocket protocol.
pub(super) struct Switch(Response);

impl IntoResponse for Switch {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Describe for Switch {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer(101, None);
    }
}

/// Runs a command over a WebSocket.
pub(super) async fn open(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
    Handshake(request): Handshake,
) -> Result<Switch, Refused> {
    let permit = Arc::clone(&shared.streams).try_acquire_owned();
    let permit = permit.map_err(|_| Problem::new("busy", "too many concurrent commands"))?;
    // Report an unknown session before the handshake.
    let session = blocking(&shared, move |operator| Ok(find(operator, &name)?.1)).await?;
    let answer = websocket::upgrade(request, move |mut socket| async move {
        let id = session.id.as_str().to_owned();
        let exit = match begin(&shared, &mut socket, id).await {
            Ok(connection) => {
                shared.metrics.execs.fetch_add(1, Ordering::Relaxed);
                shared.metrics.running.fetch_add(1, Ordering::Relaxed);
                let ended = attend(&mut socket, connection).await;
                shared.metrics.running.fetch_sub(1, Ordering::Relaxed);
                ended.ok().map(|Ended { code, why }| Exit { code, why })
            }
            Err(Refused(_, problem)) => {
                Some(Exit { code: ExitCode::Setup.code(), why: Some(problem.message) })
            }
        };
        if let Some(exit) = exit {
            let text = serde_json::to_string(&exit).unwrap_or_default();
            // The caller may be gone.
            let _ = socket.send(Message::text(text)).await;
        }
        let _ = socket.close(None).await;
        drop(permit);
    });
    answer.map(Switch)
}

/// Starts the command that the first message describes.
async fn begin(
    shared: &Arc<Shared>,
    socket: &mut Socket,
    id: String,
) -> Result<Connection, Refused> {
    let invalid = |why: String| Refused::from(Problem::new("invalid", why));
    let Some(Ok(Message::Text(first))) = socket.next().await else {
        return Err(invalid("the first message must be an `Exec`".into()));
    };
    let asked: wire::Exec =
        serde_json::from_str(&first).map_err(|error| invalid(error.to_string()))?;
    asked.check()?;
    blocking(shared, move |operator| {
        let (service, session) = find(operator, &id)?;
        let exec = Exec {
            argv: asked.argv.into_iter().map(Into::into).collect(),
            env: asked.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: Some(asked.cwd.map_or_else(|| session.project.clone(), Into::into)),
            terminal: asked.terminal.map(size),
            stdin: Stream::Piped,
            stdout: Stream::Piped,
            stderr: Stream::Piped,
        };
        Ok(service.connect(&session, exec)?)
    })
    .await
}

fn size(wire::Size { rows, columns }: wire::Size) -> pty::Size {
    pty::Size { rows, columns }
}

/// Input that the command has not read yet.
struct Typed {
    text: VecDeque<u8>,
    last: Option<u8>,
    /// True after the end of input.
    ended: bool,
    end: EndOfInput,
    /// Time at which the command last read something, or the buffer was last empty.
    taken: Instant,
}

impl Typed {
    fn new(end: EndOfInput) -> Self {
        Self { text: VecDeque::new(), last: None, ended: false, end, taken: Instant::now() }
    }

    fn add(&mut self, keys: &[u8]) {
        if self.text.is_empty() {
            self.taken = Instant::now();
        }
        self.last = keys.last().copied().or(self.last);
        self.text.extend(keys);
    }

    fn finish(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.text.extend(self.end.text(self.last));
        }
    }

    fn taken(&mut self, count: usize) {
        drop(self.text.drain(..count));
        self.taken = Instant::now();
    }

    /// Returns the time at which the next message may be read, or `None` if it may be read now.
    fn wait(&self) -> Option<Instant> {
        let end = self.taken + PATIENCE;
        (self.text.len() >= TYPED && end > Instant::now()).then_some(end)
    }
}

/// Relays until the command ends. If the caller disconnects, the command is ended.
async fn attend(socket: &mut Socket, connection: Connection) -> io::Result<Ended> {
    let Connection { stdin, stdout, stderr, end_of_input, mut process } = connection;
    let mut stdin = stdin.map(End::new).transpose()?;
    let mut outputs = [stdout.map(End::new).transpose()?, stderr.map(End::new).transpose()?];
    let awaited = register(socket::copy(process.awaited())?, Interest::READABLE)?;
    let mut typed = Typed::new(end_of_input);
    loop {
        if typed.ended && typed.text.is_empty() {
            stdin = None;
        }
        if typed.text.len() > UNREAD {
            return Ok(Ended { code: KILLED, why: Some(unread()) });
        }
        let (wait, [out, err]) = (typed.wait(), &outputs);
        tokio::select! {
            message = socket.next(), if wait.is_none() => match message {
                Some(Ok(Message::Binary(keys))) if stdin.is_some() && !typed.ended => typed.add(&keys),
                Some(Ok(Message::Text(text))) => if !control(&text, &mut *process) { typed.finish() },
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(gone()),
                Some(Ok(_)) => {}
            },
            () = until(wait), if wait.is_some() => {},
            wrote = write(stdin.as_ref(), typed.text.make_contiguous()), if !typed.text.is_empty() && stdin.is_some() => {
                if let Ok(count) = wrote {
                    typed.taken(count);
                } else {
                    // The command has closed its input.
                    stdin = None;
                    typed.text.clear();
                }
            },
            text = read(out.as_ref()), if out.is_some() => send_output(socket, 1, text, &mut outputs[0]).await?,
            text = read(err.as_ref()), if err.is_some() => send_output(socket, 2, text, &mut outputs[1]).await?,
            ready = awaited.readable() => {
                let mut ready = ready?;
                if let Some(ended) = process.poll()? {
                    drain(socket, &mut outputs).await?;
                    return Ok(ended);
                }
                ready.clear_ready();
                // An HTTP caller has no shell to return to.
                if process.stopped() {
                    let _ = process.signal(sandbox_linux::signal::CONT);
                }
            },
        }
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end.into()).await,
        None => std::future::pending().await,
    }
}

fn unread() -> String {
    format!("the command left more than {} MiB of its input unread", UNREAD >> 20)
}

fn gone() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionAborted)
}

/// Handles a text message. Returns false at the end of input.
fn control(text: &str, process: &mut dyn Process) -> bool {
    const SIGNALS: [(&str, i32); 5] =
        [("HUP", 1), ("INT", 2), ("QUIT", 3), ("KILL", 9), ("TERM", 15)];
    // Invalid and late messages are ignored.
    match serde_json::from_str(text) {
        Ok(Control::Resize(to)) => drop(process.resize(size(to))),
        Ok(Control::Signal(name)) => {
            let known = SIGNALS.iter().find(|(known, _)| *known == name.trim_start_matches("SIG"));
            if let Some((_, number)) = known {
                let _ = process.signal(*number);
            }
        }
        Ok(Control::Eof(end)) => return !end,
        Err(_) => {}
    }
    true
}

/// Sends output to the caller, and closes the stream at its end.
async fn send_output(
    socket: &mut Socket,
    stream: u8,
    text: io::Result<Vec<u8>>,
    end: &mut Option<End>,
) -> io::Result<()> {
    let text = text.unwrap_or_default();
    if text.is_empty() {
        *end = None;
        return Ok(());
    }
    let message = [&[stream], &text[..]].concat();
    socket.send(Message::binary(message)).await.map_err(|_| gone())
}

/// Sends output that is still in the pipes. Does not wait for other processes that hold them open.
async fn drain(socket: &mut Socket, outputs: &mut [Option<End>; 2]) -> io::Result<()> {
    for (stream, end) in (1..).zip(outputs) {
        while let Some(open) = end.as_ref() {
            match open.take() {
                Ok(text) => send_output(socket, stream, Ok(text), end).await?,
                Err(_) => break,
            }
        }
    }
    Ok(())
}

#[allow(
    deprecated,
    reason = "its successor is unsafe for types that may close behind its back; an `OwnedFd` does not"
)]
fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}

/// End of a pipe or a terminal.
struct End(AsyncFd<OwnedFd>);

impl End {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        socket::set_nonblocking(fd.as_fd())?;
        Ok(Self(register(fd, Interest::READABLE | Interest::WRITABLE)?))
    }

    /// Reads what is available; empty at the end.
    fn take(&self) -> io::Result<Vec<u8>> {
        let mut text = vec![0; STEP];
        let read = channel::read(self.0.as_fd(), &mut text)?;
        text.truncate(read);
        Ok(text)
    }
}

async fn read(end: Option<&End>) -> io::Result<Vec<u8>> {
    let Some(end) = end else { return std::future::pending().await };
    loop {
        let mut ready = end.0.readable().await?;
        if let Ok(text) = ready.try_io(|_| end.take()) {
            return text;
        }
    }
}

async fn write(end: Option<&End>, text: &[u8]) -> io::Result<usize> {
    let Some(end) = end else { return std::future::pending().await };
    loop {
        let mut ready = end.0.writable().await?;
        if let Ok(wrote) = ready.try_io(|fd| channel::write(fd.as_fd(), text)) {
            return wrote;
        }
    }
}
