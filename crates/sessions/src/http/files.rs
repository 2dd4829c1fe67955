//! Files of a session, read and written by a command inside, so the session's policy applies.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::NoContent;
use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::socket;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Shared;
use super::answer::{Octets, Refused, blocking, find};
use super::extract::{Content, Named, Parameters};
use super::operator::Operator;
use super::wire::Problem;
use crate::backend::{Connection, Exec, Stream};

/// Maximum size of a file to read.
const LARGEST: usize = 64 << 20;
/// Time limit of a read or write. The path may be a pipe without a writer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Query of a file call.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct FilePath {
    /// Path as seen in the session.
    path: String,
}

/// Reads a file.
pub(super) async fn read(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
    Parameters(file): Parameters<FilePath>,
) -> Result<Octets, Refused> {
    let path = file.checked()?;
    let content = blocking(&shared, move |operator| {
        match run(operator, &name, ["cat", "--", &path], Vec::new())? {
            Some(content) => Ok(content),
            None => Err(cause(operator, &name, "read", &path)?),
        }
    })
    .await?;
    Ok(Octets(content))
}

/// Writes a file. Overwrites an existing one.
pub(super) async fn write(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
    Parameters(file): Parameters<FilePath>,
    Content(body): Content,
) -> Result<NoContent, Refused> {
    let path = file.checked()?;
    blocking(&shared, move |operator| {
        match run(operator, &name, ["sh", "-c", "cat > \"$0\"", &path], body.to_vec())? {
            Some(_) => Ok(()),
            None => Err(cause(operator, &name, "write", &path)?),
        }
    })
    .await?;
    Ok(NoContent)
}

const NAME_MAX: usize = 255;
const PATH_MAX: usize = 4096;

impl FilePath {
    /// Returns the path in a form that no program takes for a flag.
    fn checked(self) -> Result<String, Refused> {
        let invalid = |problem: Problem| Err(Refused(StatusCode::BAD_REQUEST, problem));
        let Self { path } = self;
        if path.is_empty() || path.contains('\0') {
            return invalid(Problem::new("invalid", "`path` is empty or contains NUL"));
        }
        // Limits of path_resolution(7).
        if path.len() >= PATH_MAX || path.split('/').any(|name| name.len() > NAME_MAX) {
            let hint = format!("a name can have {NAME_MAX} bytes, a path {} bytes", PATH_MAX - 1);
            let hint = Some(hint);
            return invalid(Problem { hint, ..Problem::new("invalid", "`path` is too long") });
        }
        // `./` keeps a name that starts with `-` from being a flag.
        Ok(if path.starts_with('-') { format!("./{path}") } else { path })
    }
}

/// Script that prints why a file cannot be read or written. It runs inside, with the same
/// permissions.
const EXPLAIN: &str = r#"
case $1 in */*) dir=${1%/*} ;; *) dir=. ;; esac
if [ -d "$1" ]; then echo directory
elif [ -e "$1" ]; then
  if [ "$0" = read ]; then [ -r "$1" ] || echo denied; else [ -w "$1" ] || echo denied; fi
elif [ "$0" = write ] && [ -L "$1" ]; then echo dangling
elif [ ! -d "${dir:-/}" ]; then echo no_directory
elif [ ! -x "${dir:-/}" ]; then echo denied
elif [ "$0" = write ]; then [ -w "${dir:-/}" ] || echo denied
else echo no_file
fi"#;

/// Returns the problem that explains why `cat` failed.
fn cause(operator: &Operator, name: &str, act: &str, path: &str) -> Result<Refused, Refused> {
    let said = run(operator, name, ["sh", "-c", EXPLAIN, act, path], Vec::new())?;
    let said = said.unwrap_or_default();
    let (status, code, message, hint) = match said.trim_ascii_end() {
        b"directory" => {
            (StatusCode::CONFLICT, "directory", "the path is a directory", "name a file in it")
        }
        b"denied" => (
            StatusCode::FORBIDDEN,
            "denied",
            "permission denied in the session",
            "check the file's mode and the session's policy: agent-sandbox why PATH",
        ),
        b"dangling" => (
            StatusCode::CONFLICT,
            "dangling",
            "the path is a dangling link whose target cannot be created",
            "name the file itself, or remove the link with a command in the session",
        ),
        b"no_directory" => (
            StatusCode::NOT_FOUND,
            "no_directory",
            "the directory of this file does not exist in the session",
            "create it first, with a command in the session",
        ),
        b"no_file" => (
            StatusCode::NOT_FOUND,
            "no_file",
            "the file does not exist in the session",
            "relative paths start at the session's project",
        ),
        _ => {
            let message = format!("cannot {act} the file in the session");
            return Ok(Problem::new("backend", message).into());
        }
    };
    Ok(Refused(status, Problem { hint: Some(hint.into()), ..Problem::new(code, message) }))
}

/// Runs a small program. Returns its output, or `None` if it fails.
fn run<const N: usize>(
    operator: &Operator,
    name: &str,
    argv: [&str; N],
    input: Vec<u8>,
) -> Result<Option<Vec<u8>>, Refused> {
    let failed = |error: std::io::Error| Refused::from(Problem::new("backend", error.to_string()));
    let (service, session) = find(operator, name)?;
    let exec = Exec {
        argv: argv.map(Into::into).into(),
        env: vec![("LC_ALL".into(), "C".into())],
        cwd: Some(session.project.clone()),
        terminal: None,
        stdin: Stream::Piped,
        stdout: Stream::Piped,
        stderr: Stream::Given(socket::dev_null().map_err(failed)?),
    };
    let Connection { stdin, stdout, mut process, .. } = service.connect(&session, exec)?;
    let feeding = stdin.map(|stdin| {
        // A program that stops reading has failed, and reports it by its exit code.
        std::thread::spawn(move || drop(File::from(stdin).write_all(&input)))
    });
    let end = Instant::now() + PATIENCE;
    let said = stdout.map_or_else(|| Ok(Vec::new()), |stdout| hear(stdout, end))?;
    let ended = loop {
        if let Some(ended) = process.poll().map_err(failed)? {
            break ended;
        }
        wait(process.awaited(), end)?;
    };
    if let Some(feeding) = feeding {
        // The thread only writes.
        let _ = feeding.join();
    }
    Ok((ended.code == 0).then_some(said))
}

/// Reads the output of a program until its end. On a timeout the caller drops the connection, which ends the program.
fn hear(stdout: OwnedFd, end: Instant) -> Result<Vec<u8>, Refused> {
    let mut stdout = File::from(stdout);
    let (mut said, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        wait(stdout.as_fd(), end)?;
        match stdout.read(&mut piece) {
            Ok(0) => return Ok(said),
            Ok(read) => said.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Problem::new("backend", error.to_string()).into()),
        }
        if said.len() > LARGEST {
            let wrong = Problem::new("too_large", "the file is larger than 64 MiB");
            return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, wrong));
        }
    }
}

/// Waits until the descriptor is readable, or the time is over.
fn wait(awaited: BorrowedFd<'_>, end: Instant) -> Result<(), Refused> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let limit = u64::try_from(left.as_millis()).unwrap_or(0);
        let ready = channel::wait(&[(awaited, Awaited::Data)], Some(limit));
        if ready.map_err(|error| Problem::new("backend", error.to_string()))?.contains(&true) {
            return Ok(());
        }
        if left.is_zero() {
            let wrong = Problem::new("too_slow", "the read or write timed out");
            return Err(Refused(StatusCode::GATEWAY_TIMEOUT, wrong));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hear_times_out_when_a_program_prints_nothing() {
        let soon = || Instant::now() + Duration::from_millis(20);
        let (read, write) = socket::pipe().unwrap();
        let Err(Refused(status, problem)) = hear(read, soon()) else { panic!("it ended") };
        assert_eq!((status, problem.code.as_str()), (StatusCode::GATEWAY_TIMEOUT, "too_slow"));
        drop(write);
        let (read, write) = socket::pipe().unwrap();
        File::from(write).write_all(b"all").unwrap();
        assert_eq!(hear(read, Instant::now() + PATIENCE).unwrap(), b"all");
    }
}
