//! A command that the server starts: a session of processes of its own.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use sandbox_core::exec::become_command;
use sandbox_linux::{channel, fd, process, pty, signal};

use super::super::wire::{self, Order};

/// A command that was started. It leads its group.
pub(super) struct Child {
    pub(super) pid: i32,
}

impl Child {
    /// Sends a signal to it and all that is in its group. It has not been waited for.
    pub(super) fn signal(&self, signal: i32) {
        // Before it leads a group there is only itself; what comes then is waiting for it when it
        // becomes the command.
        if process::signal_group(self.pid, signal).is_err() {
            let _ = process::signal_child(self.pid, signal);
        }
        // One that is stopped could not act on it.
        if signal != signal::KILL && signal::ENDING.contains(&signal) {
            let _ = process::signal_group(self.pid, signal::CONT);
        }
    }

    /// Ends what is left of its group after it has ended itself.
    pub(super) fn end_group(&self) {
        // Nobody may be left.
        let _ = process::signal_group(self.pid, signal::KILL);
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
    let child = process::fork(|| {
        let (code, why) = become_it(start, streams, terminal);
        match caller {
            Some(caller) => tell(caller, code, &why),
            None => {
                // The agent's own terminal, and so its log.
                let _ = rustix::io::write(&streams[2], format!("error: {why}\n").as_bytes());
            }
        }
        i32::from(code)
    })?;
    Ok(Child { pid: child.pid() })
}

/// Tells a caller that there is no command to wait for.
pub(super) fn tell(caller: &OwnedFd, code: u8, why: &str) {
    const LONGEST: usize = 900;
    let why = &why.as_bytes()[..why.len().min(LONGEST)];
    // Who has gone meanwhile need not hear it.
    let _ = channel::send(caller.as_fd(), &[&[wire::FAILED, code], why].concat());
}

fn become_it(start: &Start<'_>, streams: &[OwnedFd; 3], terminal: bool) -> (u8, String) {
    let prepared = || -> io::Result<()> {
        process::lead_session()?;
        for (number, stream) in (0..).zip(streams) {
            fd::replace(number, stream)?;
        }
        if terminal {
            pty::take_control(streams[0].as_fd())?;
        }
        signal::as_a_program_expects()
    };
    if let Err(error) = prepared() {
        return (125, format!("cannot begin: {error}"));
    }
    if let Some(cwd) = start.cwd
        && let Err(error) = std::env::set_current_dir(cwd)
    {
        return (125, format!("cannot enter `{}`: {error}", cwd.display()));
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
