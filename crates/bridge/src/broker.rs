//! Requests from a Unix socket. Each is handled in a separate process, so that every process that it starts can be
//! found and ended. The broker only accepts, counts, and cleans up after killed request processes.

mod running;
mod socket;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::descendants::{self, Reaped};
use sandbox_linux::process::{self, Child, ProcessHandle};
use sandbox_linux::signal::{ENDING, Signals, TERM};
use sandbox_protocol::frame::{self, Kind, Request};

use crate::audit::Record;
use crate::request::{self, Prepared};
use crate::runner::pump::Client;
use crate::runner::{self, Ends, Input};
use crate::server::{ServeError, Server};
use running::Running;
use socket::BoundSocket;

pub(crate) use running::end_left_behind;

/// Time limit for a client to send its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Handler of one client, run in a separate process.
pub(crate) type Serve<'a> = &'a dyn Fn(UnixStream) -> i32;

/// Serves requests until told to end.
pub(crate) fn run(
    server: &Server,
    socket: &Path,
    listening: &mut dyn FnMut(&Path),
) -> Result<(), ServeError> {
    let limit = server.limit(|list| list.parallel).unwrap_or(1);
    end_left_behind(&server.slots).map_err(ServeError::Serve)?;
    listen(socket, limit, listening, &|client| serve(server, client))
}

/// Accepts clients and serves at most `limit` at a time.
pub(crate) fn listen(
    socket: &Path,
    limit: u32,
    listening: &mut dyn FnMut(&Path),
    serve: Serve<'_>,
) -> Result<(), ServeError> {
    let wrong = |source| ServeError::Listen(socket.to_owned(), source);
    let (listener, bound) = socket::bind(socket).map_err(wrong)?;
    descendants::adopt_orphans().map_err(ServeError::Serve)?;
    // Detaches a background broker from the terminal. Fails for a session leader, which has none.
    let _ = process::lead_session();
    let child = sandbox_linux::signal::CHILD;
    let signals = Signals::of(ENDING.into_iter().chain([child])).map_err(ServeError::Serve)?;
    listening(socket);
    let mut broker = Broker { listener, signals, bound, running: Vec::new(), limit, serve };
    let done = broker.accept_until_told();
    let ended = broker.end();
    broker.bound.remove();
    done.and(ended).map_err(ServeError::Serve)
}

struct Broker<'a> {
    listener: UnixListener,
    signals: Signals,
    bound: BoundSocket,
    running: Vec<Child>,
    limit: u32,
    serve: Serve<'a>,
}

impl Broker<'_> {
    fn accept_until_told(&mut self) -> io::Result<()> {
        loop {
            let fds = [
                (self.listener.as_fd(), Awaited::Data),
                (self.signals.as_fd(), Awaited::Data),
                (self.bound.changes.as_fd(), Awaited::Data),
            ];
            let ready = channel::wait(&fds, None)?;
            if ready[2] && !self.bound.is_ours() {
                return Ok(());
            }
            while let Some(arrived) = self.signals.next()? {
                if ENDING.contains(&arrived.signal) {
                    return Ok(());
                }
            }
            self.clean_up()?;
            match self.listener.accept() {
                Ok((client, _)) => self.start(client)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The client has disconnected, or there are too many open files. The next attempt may succeed.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn start(&mut self, client: UnixStream) -> io::Result<()> {
        client.set_nonblocking(false)?;
        if self.running.len() >= usize::try_from(self.limit).unwrap_or(usize::MAX) {
            // A client that does not read must not block the others.
            let _ = client.set_write_timeout(Some(Duration::from_millis(100)));
            let text = format!(
                "denied: too many\nreason: {} host commands are already running\n",
                self.limit
            );
            let _ = frame::write(&client, Kind::Error, text.as_bytes());
            let _ = frame::write(&client, Kind::Exit, &[1]);
            return Ok(());
        }
        let (own, serve) = (process::pid(), self.serve);
        let child = process::fork(|| {
            // In a separate session, so that a signal to the broker's process group does not kill it before it cleans
            // up.
            let apart = process::lead_session();
            match descendants::end_with_parent(own).and(apart) {
                Ok(()) => serve(client),
                Err(_) => 1,
            }
        })?;
        self.running.push(child);
        Ok(())
    }

    /// Reaps ended request processes. Orphans of a killed one have become children of this process.
    fn clean_up(&mut self) -> io::Result<()> {
        loop {
            match descendants::reap()? {
                Reaped::One(pid) => self.running.retain(|child| child.pid() != pid),
                Reaped::NoChildren => return Ok(()),
                Reaped::NoneYet => break,
            }
        }
        let known: BTreeSet<i32> = self.running.iter().map(Child::pid).collect();
        descendants::children().difference(&known).for_each(|pid| descendants::end_tree(*pid));
        Ok(())
    }

    /// Ends every request and waits until all their processes have ended.
    fn end(&mut self) -> io::Result<()> {
        for child in &self.running {
            if let Ok(handle) = ProcessHandle::open(child.pid()) {
                let _ = handle.signal(TERM);
            }
        }
        for child in &self.running {
            let _ = child.wait();
        }
        descendants::end_all()
    }
}

/// Serves one client from its request to its exit code.
fn serve(server: &Server, socket: UnixStream) -> i32 {
    let start = Instant::now();
    let Ok(client) = socket.try_clone().map(Client::new) else { return 1 };
    let Ok(request) = ask(&socket) else { return 1 };
    let mut record = Record {
        transport: "unix",
        argv: &request.argv,
        cwd: Some(&request.cwd),
        program: None,
        sha256: None,
        outcome: "failed",
        reason: None,
        code: 1,
        output: 0,
        milliseconds: 0,
    };
    if let Err(error) = server.audit.check() {
        say(&client, &format!("agent-sandbox: cannot write the audit log: {error}\n"), 1);
        return 1;
    }
    let running = match Running::note(&server.slots) {
        Ok(running) => running,
        Err(error) => {
            say(&client, &format!("agent-sandbox: cannot write the state: {error}\n"), 1);
            return 1;
        }
    };
    match request::prepare(server, &request.argv, Some(&request.cwd)) {
        Ok(prepared) => {
            record.program = Some(&prepared.program);
            let finished = carry_out(&prepared, socket, &client);
            drop(running);
            let ending = runner::ending(&prepared, finished);
            (record.outcome, record.code) = (ending.outcome, ending.code);
            (record.output, record.sha256) = (ending.printed, ending.sha256.as_deref());
            record.milliseconds = start.elapsed().as_millis();
            record.reason = ending.reason.as_deref();
            let text = ending.reason.as_ref().map(|reason| format!("agent-sandbox: {reason}\n"));
            write_down(server, &record);
            say(&client, &text.unwrap_or_default(), ending.code);
        }
        Err(refused) => {
            let (text, code, outcome) = refused.answer();
            (record.outcome, record.code, record.reason) = (outcome, code, Some(text.trim_end()));
            record.milliseconds = start.elapsed().as_millis();
            write_down(server, &record);
            say(&client, &text, code);
        }
    }
    0
}

/// Reads the request within the time limit.
pub(crate) fn ask(mut socket: &UnixStream) -> io::Result<Request> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let frame = frame::read(&mut socket)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    socket.set_read_timeout(None)?;
    if frame.kind != Kind::Request {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(Request::decode(&frame.body)?)
}

pub(crate) fn carry_out(
    prepared: &Prepared,
    socket: UnixStream,
    client: &Client,
) -> io::Result<runner::Finished> {
    let ends = Ends {
        input: Input::Frames { socket, client: client.clone() },
        output: Box::new(client.stream(Kind::Output)),
        error: Box::new(client.stream(Kind::Error)),
    };
    runner::run(prepared, ends, drop)
}

/// Sends a final message and the exit code. The client may have disconnected.
pub(crate) fn say(client: &Client, text: &str, code: u8) {
    if !text.is_empty() {
        let _ = client.send(Kind::Error, text.as_bytes());
    }
    let _ = client.send(Kind::Exit, &[code]);
}

fn write_down(server: &Server, record: &Record<'_>) {
    if let Err(error) = server.audit.write(record) {
        let _ = writeln!(io::stderr(), "agent-sandbox: cannot write the audit log: {error}");
    }
}
