//! Server inside a session: this binary as the sandbox's command. It starts the agent, and commands
//! on request.
//!
//! Its children inherit its restrictions: namespaces, seccomp filters, Landlock rules, no
//! capabilities. It protects its memory and descriptors from other processes inside. They can kill
//! it, which only ends the session.

mod child;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox_linux::channel::{self, Awaited, Message};
use sandbox_linux::process::{self, Change};
use sandbox_linux::signal::{self, Signals};
use sandbox_linux::{enclosure, fd, pty, socket};
use sandbox_protocol::exit::{ExitCode, by_signal};
use sandbox_protocol::layout::RUNTIME_BINARY;
use sandbox_protocol::multicall::{MULTICALL, SERVE};

use super::wire;
use child::{Child, Start};

/// Time that a command has to end after its caller disconnected.
const GRACE: Duration = Duration::from_secs(2);

/// Number of arguments before the agent's command.
pub const WORDS: usize = 5;

/// Returns true for the command line of a server.
pub fn is_in(command: &[OsString]) -> bool {
    command.first().is_some_and(|word| word == RUNTIME_BINARY)
        && command.get(2).is_some_and(|word| word == SERVE)
}

/// Returns the command line of the server, followed by the agent's.
pub fn command(agent: &super::AgentCommand) -> Vec<OsString> {
    let words = [RUNTIME_BINARY, MULTICALL, SERVE].map(OsString::from);
    let workdir = agent.workdir.clone().unwrap_or_default().into_os_string();
    words.into_iter().chain([workdir, "--".into()]).chain(agent.argv.iter().cloned()).collect()
}

/// Serves until it is asked to end. `rest` holds the agent's directory, `--` and the agent's
/// command, if any. Descriptor 0 is the socket. Returns the exit code and the reason of a failure.
pub fn serve(rest: &[OsString], environment: &[(OsString, OsString)]) -> (ExitCode, String) {
    let served = Server::new(environment).and_then(|mut server| {
        let workdir = rest.first().filter(|dir| !dir.is_empty()).map(Path::new);
        server.start_agent(rest.get(2..).unwrap_or_default(), workdir);
        server.run()
    });
    match served {
        Ok(()) => (ExitCode::Success, String::new()),
        Err(error) => (ExitCode::Setup, format!("the session's server failed: {error}")),
    }
}

/// Client of the server.
struct Caller {
    conn: OwnedFd,
    child: Option<Child>,
    /// True while it waits for the end of the agent.
    awaits_agent: bool,
    /// Time at which its command is killed, after it disconnected.
    gone: Option<Instant>,
}

struct Server<'e> {
    listener: OwnedFd,
    signals: Signals,
    environment: &'e [(OsString, OsString)],
    callers: Vec<Caller>,
    agent: Option<AgentProcess>,
    /// Directory of the sandbox's devpts, opened before any other process ran.
    terminals: Option<OwnedFd>,
    ending: bool,
}

/// State of the agent.
enum AgentProcess {
    Running(Child),
    Ended(u8),
}

impl<'e> Server<'e> {
    fn new(environment: &'e [(OsString, OsString)]) -> io::Result<Self> {
        enclosure::hide_memory()?;
        let listener = socket::copy(io::stdin().as_fd())?;
        fd::replace(0, &socket::dev_null()?)?;
        socket::set_nonblocking(listener.as_fd())?;
        let signals = Signals::open()?;
        Ok(Self {
            listener,
            signals,
            environment,
            callers: Vec::new(),
            agent: None,
            terminals: pty::devpts().ok(),
            ending: false,
        })
    }

    /// Starts the agent on the terminal that this process writes to.
    fn start_agent(&mut self, argv: &[OsString], cwd: Option<&Path>) {
        if argv.is_empty() {
            return;
        }
        let start = Start { argv, extra: &[], cwd, environment: self.environment };
        let terminal = || socket::copy(io::stdout().as_fd());
        let started = terminal().and_then(|terminal| {
            let streams =
                [socket::copy(terminal.as_fd())?, socket::copy(terminal.as_fd())?, terminal];
            child::start(&start, &streams, true, None)
        });
        self.agent = Some(match started {
            Ok(child) => AgentProcess::Running(child),
            Err(_) => AgentProcess::Ended(ExitCode::Setup.code()),
        });
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            let ready = self.pause()?;
            while let Some(arrived) = self.signals.next()? {
                if signal::ENDING.contains(&arrived.signal) {
                    self.end_all(arrived.signal);
                }
            }
            self.reap()?;
            self.end_abandoned();
            if ready.first() == Some(&true) {
                self.accept();
            }
            self.hear();
            if self.ending && !self.is_busy() {
                return Ok(());
            }
        }
    }

    /// Waits for an event. The first result is for the listener.
    fn pause(&self) -> io::Result<Vec<bool>> {
        let mut fds = vec![(self.listener.as_fd(), Awaited::Data)];
        fds.push((self.signals.as_fd(), Awaited::Data));
        let connected = self.callers.iter().filter(|caller| caller.gone.is_none());
        fds.extend(connected.map(|caller| (caller.conn.as_fd(), Awaited::Data)));
        let first = self.callers.iter().filter_map(|caller| caller.gone).min();
        let left = first.map(|end| end.saturating_duration_since(Instant::now()).as_millis());
        channel::wait(&fds, left.map(|left| u64::try_from(left).unwrap_or(0) + 1))
    }

    fn accept(&mut self) {
        // On an error, such as a full descriptor table, serve the existing callers first.
        while let Ok(conn) = socket::accept(self.listener.as_fd()) {
            self.callers.push(Caller { conn, child: None, awaits_agent: false, gone: None });
        }
    }

    /// Receives messages of callers.
    fn hear(&mut self) {
        let mut callers = std::mem::take(&mut self.callers);
        callers.retain_mut(|caller| caller.gone.is_some() || self.hear_one(caller));
        callers.append(&mut self.callers);
        self.callers = callers;
    }

    /// Handles a caller's messages. Returns false when the caller can be dropped.
    fn hear_one(&self, caller: &mut Caller) -> bool {
        loop {
            match channel::receive(caller.conn.as_fd()) {
                Ok(Some(message)) => self.answer(caller, message),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Ok(None) | Err(_) => {
                    let Some(child) = &caller.child else { return false };
                    child.signal(signal::HUP);
                    caller.gone = Some(Instant::now() + GRACE);
                    return true;
                }
            }
        }
    }

    fn answer(&self, caller: &mut Caller, message: Message) {
        match (message.text.split_first(), &caller.child) {
            (Some((&wire::HELLO, _)), _) => {
                let mut text = vec![wire::READY];
                match &self.agent {
                    None => {}
                    Some(AgentProcess::Running(_)) => text.push(b'r'),
                    Some(AgentProcess::Ended(code)) => text.extend([b'e', *code]),
                }
                // A closed connection is noticed at the next receive.
                let _ = channel::send(caller.conn.as_fd(), &text);
            }
            (Some((&wire::AWAIT, _)), None) => match &self.agent {
                None => child::tell(&caller.conn, ExitCode::Setup, "the session has no agent"),
                Some(AgentProcess::Running(_)) => caller.awaits_agent = true,
                Some(AgentProcess::Ended(code)) => {
                    let _ = channel::send(caller.conn.as_fd(), &[wire::ENDED, *code]);
                }
            },
            (Some((&wire::TERMINALS, _)), None) => {
                let _ = match &self.terminals {
                    Some(devpts) => {
                        channel::send_with(caller.conn.as_fd(), &[wire::READY], &[devpts.as_fd()])
                    }
                    None => channel::send(caller.conn.as_fd(), &[wire::READY]),
                };
            }
            (Some((&wire::SIGNAL, [number])), Some(child)) => child.signal(i32::from(*number)),
            (Some((&wire::EXEC, _)), None) if !self.ending => {
                match child::order(message.attached, self.environment, &caller.conn) {
                    Ok(child) => caller.child = Some(child),
                    Err(error) => child::tell(
                        &caller.conn,
                        ExitCode::Setup,
                        &format!("cannot start: {error}"),
                    ),
                }
            }
            _ => {}
        }
    }

    /// Reaps children, and notifies callers that wait for them.
    fn reap(&mut self) -> io::Result<()> {
        while let Some((pid, change)) = process::any_end()? {
            let code = match change {
                Change::Exited(code) => u8::try_from(code).unwrap_or(255),
                Change::Killed(signal) | Change::Stopped(signal) => by_signal(signal),
            };
            if matches!(&self.agent, Some(AgentProcess::Running(child)) if child.pid == pid) {
                self.agent = Some(AgentProcess::Ended(code));
                for caller in self.callers.iter().filter(|caller| caller.awaits_agent) {
                    let _ = channel::send(caller.conn.as_fd(), &[wire::ENDED, code]);
                }
            }
            self.callers.retain(|caller| {
                let own = caller.child.as_ref().is_some_and(|child| child.pid == pid);
                if own && caller.gone.is_some() {
                    // The rest of its process group is killed, too.
                    caller.child.iter().for_each(Child::end_group);
                } else if own {
                    let _ = channel::send(caller.conn.as_fd(), &[wire::ENDED, code]);
                }
                !own
            });
        }
        Ok(())
    }

    fn end_abandoned(&mut self) {
        let now = Instant::now();
        for caller in &mut self.callers {
            if caller.gone.is_some_and(|end| end <= now) {
                caller.child.iter().for_each(|child| child.signal(signal::KILL));
                // `reap` handles its end.
                caller.gone = Some(now + Duration::from_secs(3600));
            }
        }
    }

    fn is_busy(&self) -> bool {
        matches!(self.agent, Some(AgentProcess::Running(_)))
            || self.callers.iter().any(|caller| caller.child.is_some())
    }

    /// Asks all commands to end. Those that do not are killed with the sandbox.
    fn end_all(&mut self, signal: i32) {
        self.ending = true;
        if let Some(AgentProcess::Running(child)) = &self.agent {
            child.signal(signal);
        }
        for child in self.callers.iter().filter_map(|caller| caller.child.as_ref()) {
            child.signal(signal);
        }
    }
}
