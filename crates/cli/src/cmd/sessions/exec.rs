//! `exec`: runs a command in a running session, or in a new sandbox.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use sandbox_linux::{pty, socket};
use sandbox_policy::Host;
use sandbox_policy::config::Cow;
use sandbox_sessions::backend::{Ended, Exec, Stream};
use sandbox_sessions::relay;
use sandbox_sessions::session::{Matching, Session, Wanted};
use sandbox_sessions::{ControlError, Service, unknown};

use super::{here, service};
use crate::args::Flags;
use crate::args::sessions::One;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, indented};

/// Form of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `agent-sandbox COMMAND`, which creates a missing session.
    Short,
    /// `agent-sandbox exec COMMAND`, which creates a missing session only with `--cow`.
    Exec {
        /// `-i`.
        interactive: bool,
        /// `-t`.
        tty: bool,
    },
}

/// Runs a command in the named session if it is running, else in a new sandbox.
pub(crate) fn run(
    flags: &Flags,
    form: Form,
    command: Vec<OsString>,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let [interactive, tty] = match form {
        Form::Short => [false, false],
        Form::Exec { interactive, tty } => [interactive, tty],
    };
    if let Some((service, session)) = meant(flags, host)? {
        check_unchanged(flags, &session)?;
        let exec = prepare(flags, [interactive, tty], command, &session, host)?;
        // Handlers are installed before the command can print: its output may cause the user to send a signal.
        let signals = relay::signals().map_err(failed)?;
        let connection = service.connect(&session, exec)?;
        let ended = relay::run(connection, &signals, [interactive, tty]).map_err(failed)?;
        return Ok(tell(&ended, io));
    }
    if form != Form::Short {
        must_exist(flags, host)?;
    }
    if interactive || tty {
        return Err(Failed::usage("`-i` and `-t` need a running session; name it with `-s`"));
    }
    crate::cmd::exec::run(flags, command, host, io)
}

/// Attaches to the terminal of a session's agent.
pub(crate) fn attach(one: &One, flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let service = service::open(host)?;
    let session = service::chosen(&service, one.name.as_ref(), flags, host)?;
    let signals = relay::signals().map_err(failed)?;
    let connection = service.attach(&session, terminal_size())?;
    io.say("Attached. Detach with Ctrl-P Ctrl-Q.");
    Ok(tell(&relay::watch(connection, &signals).map_err(failed)?, io))
}

fn failed(error: io::Error) -> Failed {
    Failed::new(error, None)
}

/// Prints the reason if the command did not exit normally. Returns the exit code.
fn tell(ended: &Ended, io: &mut Stdio<'_>) -> u8 {
    if let Some(why) = &ended.why {
        io.labelled(Tone::Bad, "error", &indented(why));
    }
    ended.code
}

/// Returns the running session with the given name. A stopped local session with a layer is continued by a new sandbox
/// instead.
fn meant(flags: &Flags, host: &Host) -> Result<Option<(Service, Session)>, Failed> {
    let begins = flags.cow.is_some_and(Cow::is_on);
    let Some(name) = flags.session.as_ref().filter(|_| !begins && !flags.dry_run) else {
        return Ok(None);
    };
    let Some(service) = service::open_used(host)? else { return Ok(None) };
    match service.find(name, Matching::Name) {
        Ok(session) if session.wanted == Wanted::Up => Ok(Some((service, session))),
        Ok(session) if session.cow && !session.backend.is_container() => Ok(None),
        Ok(session) => Err(ControlError::NotUp(session.name.as_str().to_owned()).into()),
        Err(ControlError::Unknown(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Refuses the name of a session that does not exist, because a typo must not create a sandbox with another policy.
fn must_exist(flags: &Flags, host: &Host) -> Result<(), Failed> {
    let Some(name) = &flags.session else { return Ok(()) };
    if host.inside || flags.cow.is_some_and(Cow::is_on) {
        return Ok(());
    }
    let (layers, service) = (sandbox_launch::layers::sessions(host)?, service::open_used(host)?);
    match unknown(name, &here(flags, host), service.as_ref(), &layers)? {
        Some(unknown) => Err(unknown.into()),
        None => Ok(()),
    }
}

/// Refuses flags that would change the policy of a running session.
fn check_unchanged(flags: &Flags, session: &Session) -> Result<(), Failed> {
    let flags = [
        ("--network", flags.network.is_some()),
        ("--allow-host", !flags.allow_host.is_empty()),
        ("--docker", flags.docker.is_some()),
        ("--ro", !flags.ro.is_empty()),
        ("--rw", !flags.rw.is_empty()),
        ("--exclude", !flags.exclude.is_empty()),
        ("--cmd", !flags.commands.is_empty()),
        ("--config", flags.config.is_some()),
        ("--cow", flags.cow.is_some()),
    ];
    let name = &session.name;
    flags.iter().find(|(_, given)| *given).map_or(Ok(()), |(flag, _)| {
        let mut failed =
            Failed::usage(format!("session `{name}` is running: `{flag}` would have no effect"));
        failed.hint = Some(format!(
            "to recreate it with this flag: agent-sandbox {flag} … up --name {name} --recreate"
        ));
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
    let mut env = variables(flags, host)?;
    let terminal = tty.then(terminal_size);
    if let Some(term) = host.var("TERM").filter(|_| tty) {
        env.insert(0, ("TERM".into(), term.to_owned()));
    }
    let stdin = if interactive {
        passed(io::stdin().as_fd())
    } else {
        socket::dev_null().map(Stream::Given)
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

/// Returns the working directory if it is in the session's project, else the project.
fn directory(flags: &Flags, session: &Session, host: &Host) -> PathBuf {
    let here = here(flags, host);
    if flags.cwd.is_some() || here.starts_with(&session.project) {
        return here;
    }
    session.project.clone()
}

/// Returns the variables of `--env NAME=VALUE`, and of `--env NAME` with the caller's value.
fn variables(flags: &Flags, host: &Host) -> Result<Vec<(OsString, OsString)>, Failed> {
    let asked = flags.request(Vec::new(), false).map_err(Failed::usage)?.env;
    let value = |(name, value): (String, Option<OsString>)| {
        let value = value.or_else(|| host.var(&name).map(ToOwned::to_owned))?;
        Some((OsString::from(name), value))
    };
    Ok(asked.into_iter().filter_map(value).collect())
}

/// Passes a pipe as a descriptor. A file or terminal of the host is relayed instead: through `/proc/self/fd` a process
/// inside could open it again with other access than the descriptor has.
fn passed(fd: BorrowedFd<'_>) -> io::Result<Stream> {
    if socket::is_pipe(fd) { socket::copy(fd).map(Stream::Given) } else { Ok(Stream::Piped) }
}

fn terminal_size() -> pty::Size {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let all = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    all.into_iter().find_map(|fd| pty::size(fd).ok()).unwrap_or_default()
}
