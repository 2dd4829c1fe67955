//! The server inside a session: our own binary as the sandbox's command. It starts the agent, and
//! whatever it is asked to start.
//!
//! Everything that holds for it holds for what it starts, by inheritance: namespaces, filters,
//! Landlock, no capability. It hides its memory and its descriptors from the others inside. They
//! can end it, and with it the session; they gain nothing by that.

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

/// How long a command may take to end after its caller has gone.
const GRACE: Duration = Duration::from_secs(2);

/// How many words of a command line are the server's own.
pub const WORDS: usize = 5;

/// Whether a command line is that of the server.
pub fn is_in(command: &[OsString]) -> bool {
    command.first().is_some_and(|word| word == RUNTIME_BINARY)
        && command.get(2).is_some_and(|word| word == SERVE)
}

/// The command line of the server, with that of the agent behind it.
pub fn command(agent: &super::Agent) -> Vec<OsString> {
    let words = [RUNTIME_BINARY, MULTICALL, SERVE].map(OsString::from);
    let workdir = agent.workdir.clone().unwrap_or_default().into_os_string();
    words.into_iter().chain([workdir, "--".into()]).chain(agent.argv.iter().cloned()).collect()
}

/// Serves until it is asked to end. `rest` are the agent's directory, `--` and its command line, if
/// there is one; descriptor 0 is the socket. Returns the exit code, and why it could not serve.
pub fn serve(rest: &[OsString], environment: &[(OsString, OsString)]) -> (ExitCode, String) {
    let served = Server::new(environment).and_then(|mut server| {
        let workdir = rest.first().filter(|dir| !dir.is_empty()).map(Path::new);
        server.start_agent(rest.get(2..).unwrap_or_default(), workdir);
        server.run()
    });
    match served {
        Ok(()) => (ExitCode::Success, String::new()),
        Err(error) => (ExitCode::Setup, format!("the session's server cannot go on: {error}")),
    }
}

/// Somebody who asked for something.
struct Caller {
    conn: OwnedFd,
    child: Option<Child>,
    /// It waits for the end of the agent.
    awaits_agent: bool,
    /// When what it started has to be ended, because it went away.
    gone: Option<Instant>,
}

struct Server<'e> {
    listener: OwnedFd,
    signals: Signals,
    environment: &'e [(OsString, OsString)],
    callers: Vec<Caller>,
    agent: Option<Agent>,
    /// Where terminals have their names, as it was before anybody else was here.
    terminals: Option<OwnedFd>,
    ending: bool,
}

/// The agent: a process, or what became of it.
enum Agent {
    Running(Child),
    Ended(u8),
}

impl<'e> Server<'e> {
    fn new(environment: &'e [(OsString, OsString)]) -> io::Result<Self> {
        enclosure::hide_memory()?;
        let listener = socket::copy(io::stdin().as_fd())?;
        fd::replace(0, &socket::nothing()?)?;
        socket::do_not_wait(listener.as_fd())?;
        let signals = Signals::open()?;
        Ok(Self {
            listener,
            signals,
            environment,
            callers: Vec::new(),
            agent: None,
            terminals: pty::place().ok(),
            ending: false,
        })
    }

    /// The agent's terminal is the one that this process writes to.
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
            Ok(child) => Agent::Running(child),
            Err(_) => Agent::Ended(ExitCode::Setup.code()),
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

    /// Waits until something happens; the first answer is about new callers.
    fn pause(&self) -> io::Result<Vec<bool>> {
        let mut fds = vec![(self.listener.as_fd(), Awaited::Data)];
        fds.push((self.signals.as_fd(), Awaited::Data));
        let there = self.callers.iter().filter(|caller| caller.gone.is_none());
        fds.extend(there.map(|caller| (caller.conn.as_fd(), Awaited::Data)));
        let first = self.callers.iter().filter_map(|caller| caller.gone).min();
        let left = first.map(|end| end.saturating_duration_since(Instant::now()).as_millis());
        channel::wait(&fds, left.map(|left| u64::try_from(left).unwrap_or(0) + 1))
    }

    fn accept(&mut self) {
        // Nobody waits any more, or there is no room: who is there is heard first.
        while let Ok(conn) = socket::accept(self.listener.as_fd()) {
            self.callers.push(Caller { conn, child: None, awaits_agent: false, gone: None });
        }
    }

    /// Takes in what callers have said.
    fn hear(&mut self) {
        let mut callers = std::mem::take(&mut self.callers);
        callers.retain_mut(|caller| caller.gone.is_some() || self.hear_one(caller));
        callers.append(&mut self.callers);
        self.callers = callers;
    }

    /// Returns whether the caller is still of interest.
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
                    Some(Agent::Running(_)) => text.push(b'r'),
                    Some(Agent::Ended(code)) => text.extend([b'e', *code]),
                }
                // Who has gone meanwhile is noticed at the next look.
                let _ = channel::send(caller.conn.as_fd(), &text);
            }
            (Some((&wire::AWAIT, _)), None) => match &self.agent {
                None => child::tell(&caller.conn, ExitCode::Setup, "the session has no agent"),
                Some(Agent::Running(_)) => caller.awaits_agent = true,
                Some(Agent::Ended(code)) => {
                    let _ = channel::send(caller.conn.as_fd(), &[wire::ENDED, *code]);
                }
            },
            (Some((&wire::TERMINALS, _)), None) => {
                let _ = match &self.terminals {
                    Some(place) => {
                        channel::send_with(caller.conn.as_fd(), &[wire::READY], &[place.as_fd()])
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

    /// Hears which children have ended, and tells those who wait for them.
    fn reap(&mut self) -> io::Result<()> {
        while let Some((pid, change)) = process::any_end()? {
            let code = match change {
                Change::Exited(code) => u8::try_from(code).unwrap_or(255),
                Change::Killed(signal) | Change::Stopped(signal) => by_signal(signal),
            };
            if matches!(&self.agent, Some(Agent::Running(child)) if child.pid == pid) {
                self.agent = Some(Agent::Ended(code));
                for caller in self.callers.iter().filter(|caller| caller.awaits_agent) {
                    let _ = channel::send(caller.conn.as_fd(), &[wire::ENDED, code]);
                }
            }
            self.callers.retain(|caller| {
                let own = caller.child.as_ref().is_some_and(|child| child.pid == pid);
                if own && caller.gone.is_some() {
                    // What it started in its group goes with it.
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
                // Its end is heard like any other's.
                caller.gone = Some(now + Duration::from_secs(3600));
            }
        }
    }

    fn is_busy(&self) -> bool {
        matches!(self.agent, Some(Agent::Running(_)))
            || self.callers.iter().any(|caller| caller.child.is_some())
    }

    /// Asks everybody to end. Who does not is killed with the sandbox.
    fn end_all(&mut self, signal: i32) {
        self.ending = true;
        if let Some(Agent::Running(child)) = &self.agent {
            child.signal(signal);
        }
        for child in self.callers.iter().filter_map(|caller| caller.child.as_ref()) {
            child.signal(signal);
        }
    }
}
