//! Client of the server inside a session.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::pty::{self, Size};
use sandbox_linux::socket;
use sandbox_protocol::exit::by_signal;

use super::{ATTACH, SOCKET, log_writer, wire};
use crate::backend::{AgentStatus, Connection, EndOfInput, Ended, Exec, Process, Stream};

/// Time limit for the start of a sandbox, also on a busy machine.
pub(super) const READY: Duration = Duration::from_secs(180);
/// Time limit for a query.
pub(super) const GLANCE: Duration = Duration::from_secs(2);

/// Exit code of a command whose session ended.
const LOST: u8 = 137;

/// Queries the server and waits for its answer: the state of the agent.
pub(super) fn hello(dir: &Path, patience: Duration) -> io::Result<Option<AgentStatus>> {
    let conn = call(dir)?;
    hear(&conn, Instant::now() + patience)
}

/// Sends a query to the server.
pub(super) fn call(dir: &Path) -> io::Result<OwnedFd> {
    let conn = socket::connect(dir, SOCKET)?;
    channel::send(conn.as_fd(), &[wire::HELLO])?;
    Ok(conn)
}

/// Waits for the answer to a query.
pub(super) fn hear(conn: &OwnedFd, end: Instant) -> io::Result<Option<AgentStatus>> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no response"));
        }
        let limit = u64::try_from(left.as_millis()).unwrap_or(1).max(1);
        channel::wait(&[(conn.as_fd(), Awaited::Data)], Some(limit))?;
        match receive(conn.as_fd()) {
            Ok(text) => return answer(&text),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn answer(text: &[u8]) -> io::Result<Option<AgentStatus>> {
    match text {
        [wire::READY] => Ok(None),
        [wire::READY, b'r'] => Ok(Some(AgentStatus::running())),
        [wire::READY, b'e', code] => Ok(Some(AgentStatus::ended(Some(*code)))),
        [] => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "connection closed")),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "invalid response")),
    }
}

/// Receives a message without descriptors. It is empty when the connection is closed.
fn receive(conn: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut text = [0; 1024];
    match rustix::net::recv(conn, &mut text, RecvFlags::DONTWAIT) {
        Ok((length, _)) => Ok(text[..length].to_vec()),
        Err(rustix::io::Errno::CONNRESET) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Starts a command.
pub(super) fn start(dir: &Path, exec: Exec) -> io::Result<Connection> {
    let Exec { argv, env, cwd, terminal, stdin, stdout, stderr } = exec;
    let order = wire::Order { argv, env, cwd, terminal: terminal.is_some() }.to_file()?;
    let conn = socket::connect(dir, SOCKET)?;
    let end_of_input = if terminal.is_some() { EndOfInput::Key } else { EndOfInput::Closed };
    let (theirs, ours, terminal) = match terminal {
        Some(size) => on_terminal(&conn, size)?,
        None => by_streams([stdin, stdout, stderr])?,
    };
    let [stdin, stdout, stderr] = theirs.each_ref().map(AsFd::as_fd);
    channel::send_with(conn.as_fd(), &[wire::EXEC], &[order.as_fd(), stdin, stdout, stderr])?;
    let [stdin, stdout, stderr] = ours;
    let process = Box::new(Remote { conn, terminal, ended: None, stopped: false });
    Ok(Connection { stdin, stdout, stderr, end_of_input, process })
}

/// Attaches to the agent's terminal. The log writer outside relays input and output, and the server inside reports the
/// end.
pub(super) fn attach(dir: &Path, size: Size) -> io::Result<Connection> {
    let conn = socket::connect(dir, SOCKET)?;
    channel::send(conn.as_fd(), &[wire::AWAIT])?;
    let watch = socket::connect(dir, ATTACH)?;
    let ((typed, stdin), (stdout, shown)) = (socket::pipe()?, socket::pipe()?);
    channel::send_with(watch.as_fd(), &[log_writer::WATCH], &[typed.as_fd(), shown.as_fd()])?;
    let agent = Remote { conn, terminal: None, ended: None, stopped: false };
    let mut process = Watched { agent, watch, leaving: false };
    // Full-screen programs redraw when the size changes.
    process.resize(Size { rows: size.rows.saturating_add(1), ..size })?;
    process.resize(size)?;
    Ok(Connection {
        stdin: Some(stdin),
        stdout: Some(stdout),
        stderr: None,
        end_of_input: EndOfInput::Closed,
        process: Box::new(process),
    })
}

/// Agent with an attached viewer.
struct Watched {
    agent: Remote,
    watch: OwnedFd,
    /// True after the agent ended and the log writer was asked for the rest of its output.
    leaving: bool,
}

impl Process for Watched {
    fn awaited(&self) -> BorrowedFd<'_> {
        if self.leaving { self.watch.as_fd() } else { self.agent.awaited() }
    }

    fn poll(&mut self) -> io::Result<Option<Ended>> {
        let Some(ended) = self.agent.poll()? else { return Ok(None) };
        if !self.leaving {
            self.leaving = true;
            channel::send(self.watch.as_fd(), &[log_writer::LEAVE])?;
        }
        // The log writer closes the connection when all output is in the pipe.
        match receive(self.watch.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            _ => Ok(Some(ended)),
        }
    }

    /// Detaches the viewer. The agent keeps running.
    fn signal(&mut self, signal: i32) -> io::Result<()> {
        let code = by_signal(signal);
        self.agent.ended.get_or_insert(Ended { code, why: None });
        Ok(())
    }

    fn resize(&mut self, size: Size) -> io::Result<()> {
        let ([a, b], [c, d]) = (size.rows.to_be_bytes(), size.columns.to_be_bytes());
        channel::send(self.watch.as_fd(), &[log_writer::RESIZE, a, b, c, d])
    }
}

/// Streams of the command, our ends of them, and the terminal between them.
type Ends = ([OwnedFd; 3], [Option<OwnedFd>; 3], Option<OwnedFd>);

/// Creates a terminal for the command: the user's own never goes inside. It belongs to the sandbox's devpts, so that
/// its name exists there, or to the host's if the sandbox does not provide one.
fn on_terminal(conn: &OwnedFd, size: Size) -> io::Result<Ends> {
    let (ours, theirs) = match terminals(conn) {
        Some(devpts) => pty::open_in(devpts.as_fd(), size)?,
        None => pty::open(size)?,
    };
    let copy = |fd: &OwnedFd| socket::copy(fd.as_fd());
    let inside = [copy(&theirs)?, copy(&theirs)?, theirs];
    let here = [Some(copy(&ours)?), Some(copy(&ours)?), None];
    Ok((inside, here, Some(ours)))
}

/// Asks for the sandbox's devpts. It is the only descriptor accepted from inside, and `pty::open_in` checks it.
fn terminals(conn: &OwnedFd) -> Option<OwnedFd> {
    channel::send(conn.as_fd(), &[wire::TERMINALS]).ok()?;
    let limit = u64::try_from(GLANCE.as_millis()).ok();
    channel::wait(&[(conn.as_fd(), Awaited::Data)], limit).ok()?;
    let message = channel::receive(conn.as_fd()).ok()??;
    message.attached.into_iter().next().filter(|_| message.text == [wire::READY])
}

fn by_streams(streams: [Stream; 3]) -> io::Result<Ends> {
    let [stdin, stdout, stderr] = streams;
    let split = |stream: Stream, input: bool| -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        match stream {
            Stream::Given(fd) => Ok((fd, None)),
            Stream::Piped => {
                let (read, write) = socket::pipe()?;
                Ok(if input { (read, Some(write)) } else { (write, Some(read)) })
            }
        }
    };
    let (stdin, stdout, stderr) =
        (split(stdin, true)?, split(stdout, false)?, split(stderr, false)?);
    Ok(([stdin.0, stdout.0, stderr.0], [stdin.1, stdout.1, stderr.1], None))
}

/// Command in a session, at the end of a connection. Closing the connection ends the command.
struct Remote {
    conn: OwnedFd,
    terminal: Option<OwnedFd>,
    ended: Option<Ended>,
    stopped: bool,
}

impl Process for Remote {
    fn awaited(&self) -> BorrowedFd<'_> {
        self.conn.as_fd()
    }

    fn poll(&mut self) -> io::Result<Option<Ended>> {
        if self.ended.is_some() {
            return Ok(self.ended.clone());
        }
        let text = match receive(self.conn.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            other => other?,
        };
        self.ended = match &text[..] {
            [wire::ENDED, code] => Some(Ended { code: *code, why: None }),
            [wire::FAILED, code, why @ ..] => {
                let why = String::from_utf8_lossy(why).into_owned();
                Some(Ended { code: *code, why: Some(why) })
            }
            [] => Some(Ended { code: LOST, why: Some("the session has ended".into()) }),
            [wire::STOPPED] => {
                self.stopped = true;
                None
            }
            // Ignore unknown messages.
            _ => None,
        };
        Ok(self.ended.clone())
    }

    fn stopped(&mut self) -> bool {
        std::mem::take(&mut self.stopped)
    }

    fn signal(&mut self, signal: i32) -> io::Result<()> {
        let number = u8::try_from(signal).map_err(|_| io::ErrorKind::InvalidInput)?;
        channel::send(self.conn.as_fd(), &[wire::SIGNAL, number])
    }

    fn resize(&mut self, size: Size) -> io::Result<()> {
        self.terminal.as_ref().map_or(Ok(()), |terminal| pty::resize(terminal.as_fd(), size))
    }
}
