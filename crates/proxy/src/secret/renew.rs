//! Renewal of expired logins. Only the host does this. A refresh token can be used once, so a lock allows one process
//! at a time, and the agent's file is updated before the new token is used.
//!
//! A running agent on the host renews its login minutes before it expires, so this is rarely needed.

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

/// Tokens that expire sooner are renewed. A session resolves its key again when less than half of this is left.
const MARGIN: Duration = Duration::from_secs(60);
/// Time limit of a renewal, and for the wait for the lock.
const PATIENCE: Duration = Duration::from_secs(30);
/// Back-off after a failure, for one refresh token.
const PAUSE: Duration = Duration::from_secs(30);
/// Size limit of a login file and of a response.
const LARGEST: u64 = 64 << 10;

/// Failure to renew a login. Server messages are left out, because they could contain a token.
#[derive(Debug, Error)]
pub(super) enum RenewError {
    #[error("cannot write the login file")]
    File(#[source] io::Error),
    #[error("another process has locked the login file")]
    Held,
    #[error("the login has no refresh token")]
    NoRefresh,
    #[error("the last attempt to renew it has just failed")]
    Again,
    #[error("cannot reach `{0}`: {1}")]
    Unreachable(&'static str, String),
    #[error("`{0}` refused to renew it (HTTP {1})")]
    Refused(&'static str, u16),
    #[error("`{0}` sent an invalid response")]
    Answer(&'static str),
}

/// Returns true when a token remains valid for a while.
pub(super) fn is_good(token: &Resolved) -> bool {
    token.expires.is_none_or(|end| end > SystemTime::now() + MARGIN)
}

/// Renews the login in a file, unless another process just did.
pub(super) fn renew(login: &Login, path: &Path) -> Result<(), RenewError> {
    // Open the file and reserve disk space first. The refresh token must not be used up if the result cannot be saved.
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(RenewError::File)?;
    reserve_space(&file).map_err(RenewError::File)?;
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

/// Reserves disk space for the largest login file, if the filesystem supports it (`fallocate(2)`).
fn reserve_space(file: &File) -> io::Result<()> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, LARGEST) {
        Err(Errno::NOSPC | Errno::DQUOT) => Err(Errno::NOSPC.into()),
        _ => Ok(()),
    }
}

/// Locks the file against other proxies.
fn hold(lock: &LockFile) -> Result<(), RenewError> {
    let held = lock.exclusive_within(PATIENCE).map_err(RenewError::File)?;
    if held { Ok(()) } else { Err(RenewError::Held) }
}

fn read(file: &File) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    file.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// Overwrites the file in place and never truncates it, so that concurrent readers always see JSON. Replacing the file
/// would also expose it for a moment where a mount hides it from a sandbox.
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

/// Requests new tokens from the provider.
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
        runtime.block_on(call).map_err(|_| unreachable("the request timed out".into()))??;
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
        NotSent::Unused(_) => unreachable("it closed a new connection immediately".into()),
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
