//! Files of a session, read and written by a command inside: what it may not, nobody may here.

use std::fs::File;
use std::io::{self, Write};
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
/// How long it may take. Inside, a name may be a pipe that nobody writes to.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is read at a time.
const STEP: usize = 64 << 10;

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
    let (service, session) = find(operator, name)?;
    let exec = Exec {
        argv: argv.map(Into::into).into(),
        env: vec![("LC_ALL".into(), "C".into())],
        cwd: Some(session.project.clone()),
        terminal: None,
        stdin: Stream::Piped,
        stdout: Stream::Piped,
        stderr: Stream::Given(socket::nothing()?),
    };
    let Connection { stdin, stdout, mut process, .. } = service.connect(&session, exec)?;
    if let Some(stdin) = stdin {
        // Who does not read to the end has said all it will.
        std::thread::spawn(move || drop(File::from(stdin).write_all(&input)));
    }
    let end = Instant::now() + PATIENCE;
    let said = stdout.map(|stdout| all(&stdout, end)).transpose()?.unwrap_or_default();
    let ended = loop {
        if let Some(ended) = process.poll()? {
            break ended;
        }
        wait(process.awaited(), end)?;
    };
    match ended.code {
        0 => Ok(said),
        _ => Err(Refused(
            StatusCode::NOT_FOUND,
            Problem::new("no_file", "inside the session there is no such file that it may use"),
        )),
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Problem::new("backend", error.to_string()).into()
    }
}

/// Everything that comes, if it is not too much and does not take too long.
fn all(from: &OwnedFd, end: Instant) -> Result<Vec<u8>, Refused> {
    let mut said = Vec::new();
    let mut piece = vec![0; STEP];
    loop {
        wait(from.as_fd(), end)?;
        match channel::read(from.as_fd(), &mut piece)? {
            0 => return Ok(said),
            read => said.extend_from_slice(&piece[..read]),
        }
        if said.len() > LARGEST {
            let wrong = Problem::new("too_large", "the file is larger than is read this way");
            return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, wrong));
        }
    }
}

fn wait(fd: BorrowedFd<'_>, end: Instant) -> Result<(), Refused> {
    loop {
        let left = end.saturating_duration_since(Instant::now()).as_millis();
        if left == 0 {
            return Err(Problem::new("too_slow", "the file takes too long").into());
        }
        let left = u64::try_from(left).unwrap_or(u64::MAX);
        if channel::wait(&[(fd, Awaited::Data)], Some(left))?.contains(&true) {
            return Ok(());
        }
    }
}
