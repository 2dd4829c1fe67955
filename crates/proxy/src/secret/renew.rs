//! Renewing a login whose token has ended. Only here, on the host: whoever uses a refresh token gets another one, and
//! the one before it is dead. So one process at a time does it, and the agent's own file has the new ones before
//! anybody uses them.
//!
//! The agent on the host, where it runs, renews minutes before the end and comes first.

use std::fs::{File, OpenOptions};
use std::future::poll_fn;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Uri};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use sandbox_linux::lock::LockFile;
use sandbox_policy::catalog::Login;
use sandbox_policy::catalog::agent::{Renewal, Scope};
use serde_json::{Value, json};
use thiserror::Error;
use zeroize::Zeroizing;

use super::login;
use crate::credential::Resolved;
use crate::limits::CONNECT_TIMEOUT;
use crate::token::TokenHash;
use crate::upload::Upload;
use crate::upstream::{Dialer, NotSent, Pool, Target};

/// A token that ends sooner is renewed. It is asked for again when less than half of this is left.
const MARGIN: Duration = Duration::from_secs(60);
/// For the whole of it, and for somebody else's turn.
const PATIENCE: Duration = Duration::from_secs(30);
/// After a failure, the same refresh token is not tried again for this long.
const PAUSE: Duration = Duration::from_secs(30);
/// No file of a login, and no answer about one, is longer.
const LARGEST: u64 = 64 << 10;

/// Why a login is as it was. Nothing that a server said is in it: it could be a token.
#[derive(Debug, Error)]
pub(super) enum RenewError {
    #[error("its file cannot be written")]
    File(#[source] io::Error),
    #[error("somebody else holds its file")]
    Held,
    #[error("it has no refresh token")]
    NoRefresh,
    #[error("it could not be renewed a moment ago")]
    Again,
    #[error("no connection to `{0}`: {1}")]
    Unreachable(&'static str, String),
    #[error("`{0}` does not renew it: status {1}")]
    Refused(&'static str, u16),
    #[error("`{0}` gave an answer that is none")]
    Answer(&'static str),
}

/// Whether a token can be used for a while.
pub(super) fn is_good(token: &Resolved) -> bool {
    token.expires.is_none_or(|end| end > SystemTime::now() + MARGIN)
}

/// Renews the login in a file, unless somebody has meanwhile.
pub(super) fn renew(login: &Login, path: &Path) -> Result<(), RenewError> {
    // Opened for writing, with room on the disk, before anything is asked for: what cannot be kept must not be used up.
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(RenewError::File)?;
    make_room(&file).map_err(RenewError::File)?;
    let lock = LockFile::from(file);
    hold(&lock)?;
    let file = lock.file();
    let text = read(file).map_err(RenewError::File)?;
    if login::token(login, &text).is_some_and(|token| is_good(&token)) {
        return Ok(());
    }
    let mut content: Value = serde_json::from_str(&text).map_err(|_| RenewError::NoRefresh)?;
    let refresh = login::refresh(login, &content).ok_or(RenewError::NoRefresh)?;
    let tried = TokenHash::of(&refresh);
    if failed_lately(&tried) {
        return Err(RenewError::Again);
    }
    let answer = ask(login, &refresh).inspect_err(|_| remember(tried))?;
    login::renewed(login, &mut content, &answer).ok_or_else(|| {
        remember(tried);
        RenewError::Answer(login.renewal.server)
    })?;
    write(file, &content, text.len()).map_err(RenewError::File)
}

/// Sees to it that the disk has room for any login, where it can promise that.
fn make_room(file: &File) -> io::Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, LARGEST) {
        Err(Errno::NOSPC | Errno::DQUOT) => Err(Errno::NOSPC.into()),
        _ => Ok(()),
    }
}

/// One at a time, of all proxies.
fn hold(lock: &LockFile) -> Result<(), RenewError> {
    let held = lock.exclusive_within(PATIENCE).map_err(RenewError::File)?;
    if held { Ok(()) } else { Err(RenewError::Held) }
}

fn read(file: &File) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    file.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// In place and never shorter, so that whoever reads meanwhile reads JSON. A new file in the place of the old one
/// would also uncover it for a moment where a sandbox hides it.
fn write(mut file: &File, content: &Value, before: usize) -> io::Result<()> {
    let mut text = Zeroizing::new(content.to_string());
    let missing = before.saturating_sub(text.len());
    text.extend(std::iter::repeat_n('\n', missing));
    file.seek(SeekFrom::Start(0))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

static FAILED: Mutex<Option<(TokenHash, Instant)>> = Mutex::new(None);

fn failed_lately(tried: &TokenHash) -> bool {
    let failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    failed.as_ref().is_some_and(|(hash, at)| hash == tried && at.elapsed() < PAUSE)
}

fn remember(tried: TokenHash) {
    *FAILED.lock().unwrap_or_else(PoisonError::into_inner) = Some((tried, Instant::now()));
}

/// Asks the provider for new tokens. The whole answer, or none of it.
fn ask(login: &Login, refresh: &str) -> Result<Value, RenewError> {
    let Renewal { server, path, client, scope } = login.renewal;
    let unreachable = |why: String| RenewError::Unreachable(server, why);
    let mut asked =
        json!({ "grant_type": "refresh_token", "refresh_token": refresh, "client_id": client });
    if let Scope::Requested(scope) = scope {
        asked["scope"] = json!(scope);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unreachable(error.to_string()))?;
    let call =
        async { tokio::time::timeout(PATIENCE, post(server, path, asked.to_string())).await };
    let (status, body) =
        runtime.block_on(call).map_err(|_| unreachable("it takes too long".into()))??;
    if status != 200 {
        return Err(RenewError::Refused(server, status));
    }
    serde_json::from_slice(&body).map_err(|_| RenewError::Answer(server))
}

async fn post(
    server: &'static str,
    path: &'static str,
    body: String,
) -> Result<(u16, Zeroizing<Vec<u8>>), RenewError> {
    let unreachable = |why: String| RenewError::Unreachable(server, why);
    let target = Target::public(server).map_err(|error| unreachable(error.to_string()))?;
    let host = HeaderValue::try_from(target.authority());
    let mut request = Request::new(Upload::memory(Bytes::from(body), Arc::default()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from_static(path);
    let headers = request.headers_mut();
    headers.insert(HOST, host.map_err(|error| unreachable(error.to_string()))?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let pool = Pool::new(Arc::default());
    let lease = pool.open_http1(&target, Dialer { timeout: CONNECT_TIMEOUT }).await;
    let lease = lease.map_err(|error| unreachable(sandbox_linux::error::chain(&error)))?;
    let answer = lease.send(request).await.map_err(|error| match error {
        NotSent::Failed(error) => unreachable(sandbox_linux::error::chain(&error)),
        NotSent::Unused(_) => unreachable("it closes new connections at once".into()),
    })?;
    let (head, mut reply) = answer.into_parts();
    let mut whole = Zeroizing::new(Vec::new());
    while let Some(frame) = poll_fn(|cx| reply.poll_frame(cx)).await {
        let frame = frame.map_err(|_| RenewError::Answer(server))?;
        whole.extend_from_slice(frame.data_ref().map_or(&[][..], Bytes::as_ref));
        if whole.len() as u64 > LARGEST {
            return Err(RenewError::Answer(server));
        }
    }
    Ok((head.status.as_u16(), whole))
}
