//! Commands that the server starts, each in its own session, setsid(2).

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

/// Started command.
pub(super) struct Child {
    /// Child of the server: the command, or its attendant if the caller has a terminal.
    pub(super) pid: i32,
    /// Leader of the command's process group.
    leader: i32,
}

impl Child {
    /// Sends a signal to the process group. The child must not have been reaped.
    pub(super) fn signal(&self, signal: i32) {
        // Before setsid(2) there is only the child. A signal that it gets then stays pending until
        // the command runs.
        if process::signal_group(self.leader, signal).is_err() {
            let _ = process::signal_child(self.pid, signal);
        }
        // A stopped process would not react.
        if signal != signal::KILL && signal::ENDING.contains(&signal) {
            let _ = process::signal_group(self.leader, signal::CONT);
        }
    }

    /// Kills the rest of the process group after its leader ended.
    pub(super) fn end_group(&self) {
        // The group may be empty.
        let _ = process::signal_group(self.leader, signal::KILL);
    }
}

/// Command to start.
pub(super) struct Start<'s> {
    pub(super) argv: &'s [OsString],
    pub(super) extra: &'s [(OsString, OsString)],
    pub(super) cwd: Option<&'s Path>,
    pub(super) environment: &'s [(OsString, OsString)],
}

/// Starts the command of an order, with the streams attached to it.
pub(super) fn order(
    attached: Vec<OwnedFd>,
    environment: &[(OsString, OsString)],
    caller: &OwnedFd,
) -> io::Result<Child> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "invalid order");
    let [order, stdin, stdout, stderr]: [OwnedFd; 4] =
        attached.try_into().map_err(|_| invalid())?;
    let mut bytes = Vec::new();
    File::from(order).take(wire::LONGEST as u64 + 1).read_to_end(&mut bytes)?;
    let order = Order::decode(&bytes).ok_or_else(invalid)?;
    let start =
        Start { argv: &order.argv, extra: &order.env, cwd: order.cwd.as_deref(), environment };
    self::start(&start, &[stdin, stdout, stderr], order.terminal, Some(caller))
}

/// Forks and executes the command. On failure the caller gets the reason.
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
                // Goes to the agent's terminal, and so to the log.
                let _ = rustix::io::write(&streams[2], format!("error: {why}\n").as_bytes());
            }
        }
        i32::from(code)
    })?;
    Ok(Child { pid: child.pid(), leader: child.pid() })
}

/// Starts a command on a caller's terminal with an attendant that leads the session. The terminal never stops an
/// orphaned process group, setpgid(2), so the command's parent must be in its session. The attendant reports stops to
/// the caller.
fn attended(start: &Start<'_>, streams: &[OwnedFd; 3], caller: &OwnedFd) -> io::Result<Child> {
    let (told, tells) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let child = process::fork(|| match attend(start, streams, caller, tells) {
        Ok(code) => code,
        Err(error) => {
            tell(caller, ExitCode::Setup, &format!("cannot start: {error}"));
            ExitCode::Setup.into()
        }
    })?;
    let mut number = [0; 4];
    let leader = match File::from(told).read_exact(&mut number) {
        Ok(()) => i32::from_ne_bytes(number),
        // The attendant ended before it started the command.
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
            // tcsetpgrp(3) from a background process: the server's mask blocks SIGTTOU.
            pty::take_foreground(streams[0].as_fd())?;
            replace_streams(streams)
        });
        tell(caller, code, &why);
        i32::from(code)
    })?;
    File::from(tells).write_all(&command.pid().to_ne_bytes())?;
    // Drop other callers' connections, so that they close when the server closes them.
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

/// Reports to a caller that the command did not start.
pub(super) fn tell(caller: &OwnedFd, code: ExitCode, why: &str) {
    const LONGEST: usize = 900;
    let why = &why.as_bytes()[..why.len().min(LONGEST)];
    // The caller may be gone.
    let _ = channel::send(caller.as_fd(), &[&[wire::FAILED, code.code()], why].concat());
}

fn become_it(start: &Start<'_>, place: impl FnOnce() -> io::Result<()>) -> (ExitCode, String) {
    if let Err(error) = place().and_then(|()| signal::reset_for_exec()) {
        return (ExitCode::Setup, format!("cannot start: {error}"));
    }
    if let Some(cwd) = start.cwd
        && let Err(error) = std::env::set_current_dir(cwd)
    {
        return (ExitCode::Setup, format!("cannot enter `{}`: {error}", cwd.display()));
    }
    become_command(start.argv, &environment(start))
}

/// Returns the session's environment with the command's additions.
fn environment(start: &Start<'_>) -> Vec<(OsString, OsString)> {
    let pwd = start.cwd.map(|cwd| (OsString::from("PWD"), OsString::from(cwd)));
    let extra: Vec<_> = pwd.into_iter().chain(start.extra.iter().cloned()).collect();
    let kept = |(name, _): &&(OsString, OsString)| !extra.iter().any(|(other, _)| other == name);
    let own = start.environment.iter().filter(kept).cloned();
    own.collect::<Vec<_>>().into_iter().chain(extra.clone()).collect()
}
