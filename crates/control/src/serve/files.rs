//! Files of a session, read and written by a command inside: what it may not, nobody may here.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use sandbox_linux::channel::{self, Awaited};
use sandbox_linux::socket;
use serde::Deserialize;

use super::answer::{Refused, blocking, find};
use super::routes::{Word, word};
use super::wire::Problem;
use super::{Operator, Shared};
use crate::backend::{Connection, Exec, Stream};

/// The largest file that is read.
const LARGEST: usize = 64 << 20;
/// How long reading or writing may take. What is inside may be a pipe that nobody ever writes to.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which file.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    path: String,
}

type Asked = Result<Query<Which>, QueryRejection>;

/// The content of a file.
pub(super) async fn read(
    State(shared): State<Arc<Shared>>,
    name: Word,
    which: Asked,
) -> Result<Response, Refused> {
    let (name, path) = (word(name)?, path(which)?);
    let content =
        blocking(&shared, move |operator| run(operator, &name, ["cat", "--", &path], Vec::new()))
            .await?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], content).into_response())
}

/// Puts content into a file; a file that is there is overwritten.
pub(super) async fn write(
    State(shared): State<Arc<Shared>>,
    name: Word,
    which: Asked,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, Refused> {
    let (name, path) = (word(name)?, path(which)?);
    let body =
        body.map_err(|error| Refused(error.status(), Problem::new("invalid", error.body_text())))?;
    let script = ["sh", "-c", "cat > \"$0\"", &path].map(ToOwned::to_owned);
    blocking(&shared, move |operator| {
        run(operator, &name, script.each_ref().map(String::as_str), body.to_vec())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn path(which: Asked) -> Result<String, Refused> {
    let invalid = |why: String| Refused(StatusCode::BAD_REQUEST, Problem::new("invalid", why));
    let Query(which) = which.map_err(|error| invalid(error.body_text()))?;
    if which.path.is_empty() || which.path.contains('\0') {
        return Err(invalid("`path` is no path".into()));
    }
    // A name that begins with `-` is a name.
    let plain = which.path.starts_with('-');
    Ok(if plain { format!("./{}", which.path) } else { which.path })
}

/// Runs a small program to its end; what it says is the answer.
fn run<const N: usize>(
    operator: &dyn Operator,
    name: &str,
    argv: [&str; N],
    input: Vec<u8>,
) -> Result<Vec<u8>, Refused> {
    let failed = |error: std::io::Error| Refused::from(Problem::new("backend", error.to_string()));
    let (service, session) = find(operator, name)?;
    let exec = Exec {
        argv: argv.map(Into::into).into(),
        env: vec![("LC_ALL".into(), "C".into())],
        cwd: Some(session.project.clone()),
        terminal: None,
        stdin: Stream::Piped,
        stdout: Stream::Piped,
        stderr: Stream::Given(socket::nothing().map_err(failed)?),
    };
    let Connection { stdin, stdout, mut process, .. } = service.connect(&session, exec)?;
    let feeding = stdin.map(|stdin| {
        // Who does not read to the end has said all it will.
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
        // It only wrote.
        let _ = feeding.join();
    }
    match ended.code {
        0 => Ok(said),
        _ => Err(Refused(
            StatusCode::NOT_FOUND,
            Problem::new("no_file", "inside the session there is no such file that it may use"),
        )),
    }
}

/// What a program says until it closes its output. When this gives up, the program is ended with its connection.
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
            let wrong = Problem::new("too_large", "the file is larger than is read this way");
            return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, wrong));
        }
    }
}

/// Waits until there is something, but no longer than that.
fn wait(awaited: BorrowedFd<'_>, end: Instant) -> Result<(), Refused> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let limit = u64::try_from(left.as_millis()).unwrap_or(0);
        let ready = channel::wait(&[(awaited, Awaited::Data)], Some(limit));
        if ready.map_err(|error| Problem::new("backend", error.to_string()))?.contains(&true) {
            return Ok(());
        }
        if left.is_zero() {
            let wrong = Problem::new("too_slow", "the file does not come to an end");
            return Err(Refused(StatusCode::GATEWAY_TIMEOUT, wrong));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_says_nothing_is_not_waited_for_for_ever() {
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
