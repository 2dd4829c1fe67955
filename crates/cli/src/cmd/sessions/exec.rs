//! `exec`: in a session that is up, or as any other run.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use sandbox_control::backend::{Exec, Stream};
use sandbox_control::session::{BackendKind, Matching, Session, Wanted};
use sandbox_control::{ControlError, Service};
use sandbox_core::Host;
use sandbox_linux::{pty, socket};

use super::{here, relay, service};
use crate::args::Flags;
use crate::args::sessions::One;
use crate::run::{Failed, Outcome};
use crate::ui::Stdio;

/// Runs a command in the session that is named, if one of that name is up, else in a sandbox of its own.
pub(crate) fn run(
    flags: &Flags,
    [interactive, tty]: [bool; 2],
    command: Vec<OsString>,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    if let Some((service, session)) = meant(flags, host)? {
        unshaped(flags, &session)?;
        let exec = prepare(flags, [interactive, tty], command, &session, host)?;
        // Before the command can say anything: whoever hears of it may send a signal.
        let signals = relay::signals()?;
        let connection = service.connect(&session, exec)?;
        return relay::run(connection, &signals, [interactive, tty], io);
    }
    if interactive || tty {
        return Err(Failed::usage(
            "`-i` and `-t` are for a command in a session that is up; name it by `-s`",
        ));
    }
    crate::cmd::exec::run(flags, command, host, io)
}

/// Joins the terminal of a session's agent.
pub(crate) fn attach(one: &One, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let service = service::open(host)?;
    let session = service::chosen(&service, one.name.as_ref(), flags, host)?;
    let signals = relay::signals()?;
    let connection = service.attach(&session, terminal_size())?;
    io.say("^P ^Q leaves the agent alone again");
    relay::watch(connection, &signals, io)
}

/// The session that is up under the name that was typed. One that is down and keeps changes apart
/// is gone on with by a run of its own, as ever.
fn meant(flags: &Flags, host: &Host) -> Result<Option<(Service, Session)>, Failed> {
    let Some(name) = flags.session.as_ref().filter(|_| flags.cow.is_none() && !flags.dry_run)
    else {
        return Ok(None);
    };
    let Some(service) = service::open_used(host)? else { return Ok(None) };
    match service.find(name, Matching::Name) {
        Ok(session) if session.wanted == Wanted::Up => Ok(Some((service, session))),
        Ok(session) if session.cow && session.backend == BackendKind::Bwrap => Ok(None),
        Ok(session) => Err(ControlError::NotUp(session.name.as_str().to_owned()).into()),
        Err(ControlError::Unknown(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A session has the shape that it was brought up with.
fn unshaped(flags: &Flags, session: &Session) -> Result<(), Failed> {
    let shaping = [
        ("--network", flags.network.is_some()),
        ("--allow-host", !flags.allow_host.is_empty()),
        ("--docker", flags.docker.is_some()),
        ("--ro", !flags.ro.is_empty()),
        ("--rw", !flags.rw.is_empty()),
        ("--exclude", !flags.exclude.is_empty()),
        ("--cmd", !flags.commands.is_empty()),
        ("--config", flags.config.is_some()),
    ];
    let name = &session.name;
    shaping.iter().find(|(_, given)| *given).map_or(Ok(()), |(flag, _)| {
        let mut failed =
            Failed::usage(format!("the session `{name}` is up: `{flag}` would have no effect"));
        failed.hint = Some(format!("shape it anew: agent-sandbox {flag} … up --name {name}"));
        Err(failed)
    })
}

fn prepare(
    flags: &Flags,
    [interactive, tty]: [bool; 2],
    argv: Vec<OsString>,
    session: &Session,
    host: &Host,
) -> Result<Exec, Failed> {
    let failed = |error: io::Error| Failed::new(error, None);
    let mut env = variables(flags, host)?;
    let terminal = tty.then(terminal_size);
    if let Some(term) = host.var("TERM").filter(|_| tty) {
        env.insert(0, ("TERM".into(), term.to_owned()));
    }
    let stdin = if interactive {
        passed(io::stdin().as_fd())
    } else {
        socket::nothing().map(Stream::Given)
    };
    Ok(Exec {
        argv,
        env,
        cwd: Some(directory(flags, session, host)),
        terminal,
        stdin: stdin.map_err(failed)?,
        stdout: passed(io::stdout().as_fd()).map_err(failed)?,
        stderr: passed(io::stderr().as_fd()).map_err(failed)?,
    })
}

/// Where the user stands, if that is in the session's project; else the project.
fn directory(flags: &Flags, session: &Session, host: &Host) -> PathBuf {
    let here = here(flags, host);
    if flags.cwd.is_some() || here.starts_with(&session.project) {
        return here;
    }
    session.project.clone()
}

/// `--env NAME=VALUE`, and `--env NAME` for the caller's own value.
fn variables(flags: &Flags, host: &Host) -> Result<Vec<(OsString, OsString)>, Failed> {
    let asked = flags.request(Vec::new(), false).map_err(Failed::usage)?.env;
    let value = |(name, value): (String, Option<OsString>)| {
        let value = value.or_else(|| host.var(&name).map(ToOwned::to_owned))?;
        Some((OsString::from(name), value))
    };
    Ok(asked.into_iter().filter_map(value).collect())
}

/// A pipe goes in as it is. A file or a terminal of the host's never does: it could be opened anew
/// from inside, by another right than the one it was given with.
fn passed(fd: BorrowedFd<'_>) -> io::Result<Stream> {
    if socket::is_pipe(fd) { socket::copy(fd).map(Stream::Given) } else { Ok(Stream::Piped) }
}

fn terminal_size() -> pty::Size {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let all = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    all.into_iter().find_map(|fd| pty::size(fd).ok()).unwrap_or_default()
}
