//! `exec`: in a session that is up, or as any other run.

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
use sandbox_sessions::{ControlError, Service, UnknownSession};

use super::{here, service};
use crate::args::Flags;
use crate::args::sessions::One;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, indented};

/// How a command was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `agent-sandbox COMMAND`: a session that is not there yet is begun.
    Short,
    /// `agent-sandbox exec COMMAND`: the session must be there, unless `--cow` begins it.
    Exec {
        /// `-i`.
        interactive: bool,
        /// `-t`.
        tty: bool,
    },
}

/// Runs a command in the session that is named, if one of that name is up, else in a sandbox of its own.
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
        unshaped(flags, &session)?;
        let exec = prepare(flags, [interactive, tty], command, &session, host)?;
        // Before the command can say anything: whoever hears of it may send a signal.
        let signals = relay::signals().map_err(failed)?;
        let connection = service.connect(&session, exec)?;
        let ended = relay::run(connection, &signals, [interactive, tty]).map_err(failed)?;
        return Ok(tell(&ended, io));
    }
    if form != Form::Short {
        must_exist(flags, host)?;
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
    let signals = relay::signals().map_err(failed)?;
    let connection = service.attach(&session, terminal_size())?;
    io.say("^P ^Q leaves the agent alone again");
    Ok(tell(&relay::watch(connection, &signals).map_err(failed)?, io))
}

fn failed(error: io::Error) -> Failed {
    Failed::new(error, None)
}

/// Prints why a command ended without a code of its own, and returns the code to pass on.
fn tell(ended: &Ended, io: &mut Stdio<'_>) -> u8 {
    if let Some(why) = &ended.why {
        io.labelled(Tone::Bad, "error", &indented(why));
    }
    ended.code
}

/// The session that is up under the name that was typed. One that is down and keeps changes apart
/// is gone on with by a run of its own, as ever.
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

/// Refuses a name that no session has: a slip must not begin another sandbox.
fn must_exist(flags: &Flags, host: &Host) -> Result<(), Failed> {
    let Some(name) = &flags.session else { return Ok(()) };
    if host.inside || flags.cow.is_some_and(Cow::is_on) {
        return Ok(());
    }
    let (sessions, project) = (sandbox_launch::layers::sessions(host)?, here(flags, host));
    if sessions.of(&project, name)?.is_some() {
        return Ok(());
    }
    let up = match service::open_used(host)? {
        Some(service) => {
            if let Ok(session) = service.find(name, Matching::Name) {
                return Err(ControlError::NotUp(session.name.to_string()).into());
            }
            service.sessions()?
        }
        None => Vec::new(),
    };
    let mut known: Vec<String> = up.iter().map(|session| session.name.to_string()).collect();
    let here = sessions.list()?.into_iter().filter(|session| session.record().project == project);
    known.extend(here.map(|session| session.record().name.clone()));
    // A session that is up and its layer have one name.
    let mut seen = std::collections::BTreeSet::new();
    known.retain(|name| seen.insert(name.clone()));
    Err(UnknownSession { name: name.clone(), known }.into())
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
        ("--cow", flags.cow.is_some()),
    ];
    let name = &session.name;
    shaping.iter().find(|(_, given)| *given).map_or(Ok(()), |(flag, _)| {
        let mut failed =
            Failed::usage(format!("the session `{name}` is up: `{flag}` would have no effect"));
        failed.hint = Some(format!(
            "bring it up with it: agent-sandbox {flag} … up --name {name} --recreate"
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
