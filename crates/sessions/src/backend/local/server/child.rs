//! A command that the server starts: a session of processes of its own.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use sandbox_core::run::become_command;
use sandbox_linux::process::{self, Change};
use sandbox_linux::{channel, fd, pty, signal, socket};
use sandbox_protocol::exit::{ExitCode, by_signal};

use super::super::wire::{self, Order};

/// A command that was started.
pub(super) struct Child {
    /// The server's own child: the command, or on a caller's terminal the process that attends it.
    pub(super) pid: i32,
    /// The command, which leads its group.
    leader: i32,
}

impl Child {
    /// Sends a signal to it and all that is in its group. It has not been waited for.
    pub(super) fn signal(&self, signal: i32) {
        // Before it leads a group there is only itself; what comes then is waiting for it when it
        // becomes the command.
        if process::signal_group(self.leader, signal).is_err() {
            let _ = process::signal_child(self.pid, signal);
        }
        // One that is stopped could not act on it.
        if signal != signal::KILL && signal::ENDING.contains(&signal) {
            let _ = process::signal_group(self.leader, signal::CONT);
        }
    }

    /// Ends what is left of its group after it has ended itself.
    pub(super) fn end_group(&self) {
        // Nobody may be left.
        let _ = process::signal_group(self.leader, signal::KILL);
    }
}

/// What is to be started.
pub(super) struct Start<'s> {
    pub(super) argv: &'s [OsString],
    pub(super) extra: &'s [(OsString, OsString)],
    pub(super) cwd: Option<&'s Path>,
    pub(super) environment: &'s [(OsString, OsString)],
}

/// Starts what an order says, with the streams that came with it.
pub(super) fn order(
    attached: Vec<OwnedFd>,
    environment: &[(OsString, OsString)],
    caller: &OwnedFd,
) -> io::Result<Child> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the order makes no sense");
    let [order, stdin, stdout, stderr]: [OwnedFd; 4] =
        attached.try_into().map_err(|_| invalid())?;
    let mut bytes = Vec::new();
    File::from(order).take(wire::LONGEST as u64 + 1).read_to_end(&mut bytes)?;
    let order = Order::decode(&bytes).ok_or_else(invalid)?;
    let start =
        Start { argv: &order.argv, extra: &order.env, cwd: order.cwd.as_deref(), environment };
    self::start(&start, &[stdin, stdout, stderr], order.terminal, Some(caller))
}

/// Forks, and becomes the command. Who asked hears why if that fails.
pub(super) fn start(
    start: &Start<'_>,
    streams: &[OwnedFd; 3],
    terminal: bool,
    caller: Option<&OwnedFd>,
) -> io::Result<Child> {
    if let Some(caller) = caller.filter(|_| terminal) {
        return attended(start, streams, caller);
    }
    let child = process::fork(|| {
        let (code, why) = become_it(start, || {
            process::lead_session()?;
            replace_streams(streams)?;
            if terminal { pty::take_control(streams[0].as_fd()) } else { Ok(()) }
        });
        match caller {
            Some(caller) => tell(caller, code, &why),
            None => {
                // The agent's own terminal, and so its log.
                let _ = rustix::io::write(&streams[2], format!("error: {why}\n").as_bytes());
            }
        }
        i32::from(code)
    })?;
    Ok(Child { pid: child.pid(), leader: child.pid() })
}

/// Starts a command on a caller's terminal with a process beside it, which leads the session. A group without a parent
/// beside it in its session is never stopped by its terminal, see setpgid(2) on orphaned groups; the caller is told
/// of a stop.
fn attended(start: &Start<'_>, streams: &[OwnedFd; 3], caller: &OwnedFd) -> io::Result<Child> {
    let (told, tells) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let child = process::fork(|| match attend(start, streams, caller, tells) {
        Ok(code) => code,
        Err(error) => {
            tell(caller, ExitCode::Setup, &format!("cannot begin: {error}"));
            ExitCode::Setup.into()
        }
    })?;
    let mut number = [0; 4];
    let leader = match File::from(told).read_exact(&mut number) {
        Ok(()) => i32::from_ne_bytes(number),
        // It ended before it started anything.
        Err(_) => child.pid(),
    };
    Ok(Child { pid: child.pid(), leader })
}

fn attend(
    start: &Start<'_>,
    streams: &[OwnedFd; 3],
    caller: &OwnedFd,
    tells: OwnedFd,
) -> io::Result<i32> {
    process::lead_session()?;
    pty::take_control(streams[0].as_fd())?;
    let parent = process::pid();
    let command = process::fork(|| {
        let (code, why) = become_it(start, || {
            process::die_with_parent(parent)?;
            // The server's mask blocks the stopping signals.
            pty::to_front(streams[0].as_fd())?;
            replace_streams(streams)
        });
        tell(caller, code, &why);
        i32::from(code)
    })?;
    File::from(tells).write_all(&command.pid().to_ne_bytes())?;
    // Other callers' connections end when the server lets go of them.
    let caller = fd::keep_only(socket::copy(caller.as_fd())?)?;
    loop {
        match command.wait_or_stop()? {
            Change::Exited(code) => return Ok(code),
            Change::Killed(signal) => return Ok(by_signal(signal).into()),
            Change::Stopped(_) => {
                let _ = channel::send(caller.as_fd(), &[wire::STOPPED]);
            }
        }
    }
}

fn replace_streams(streams: &[OwnedFd; 3]) -> io::Result<()> {
    (0..).zip(streams).try_for_each(|(number, stream)| fd::replace(number, stream))
}

/// Tells a caller that there is no command to wait for.
pub(super) fn tell(caller: &OwnedFd, code: ExitCode, why: &str) {
    const LONGEST: usize = 900;
    let why = &why.as_bytes()[..why.len().min(LONGEST)];
    // Who has gone meanwhile need not hear it.
    let _ = channel::send(caller.as_fd(), &[&[wire::FAILED, code.code()], why].concat());
}

fn become_it(start: &Start<'_>, place: impl FnOnce() -> io::Result<()>) -> (ExitCode, String) {
    if let Err(error) = place().and_then(|()| signal::as_a_program_expects()) {
        return (ExitCode::Setup, format!("cannot begin: {error}"));
    }
    if let Some(cwd) = start.cwd
        && let Err(error) = std::env::set_current_dir(cwd)
    {
        return (ExitCode::Setup, format!("cannot enter `{}`: {error}", cwd.display()));
    }
    become_command(start.argv, &environment(start))
}

/// The session's own variables, and on top of them what was asked for.
fn environment(start: &Start<'_>) -> Vec<(OsString, OsString)> {
    let pwd = start.cwd.map(|cwd| (OsString::from("PWD"), OsString::from(cwd)));
    let extra: Vec<_> = pwd.into_iter().chain(start.extra.iter().cloned()).collect();
    let kept = |(name, _): &&(OsString, OsString)| !extra.iter().any(|(other, _)| other == name);
    let own = start.environment.iter().filter(kept).cloned();
    own.collect::<Vec<_>>().into_iter().chain(extra.clone()).collect()
}
