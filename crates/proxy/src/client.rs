//! Speaking to a proxy from a program without a runtime: register, revoke, attach, start it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use sandbox_protocol::Hint;
use serde_json::{Value, json};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::attach::{Attach, framed};
use crate::dirs::ProxyDirs;
use crate::rendezvous::NewRendezvous;
use crate::session::Registration;

/// Why a proxy did not do what was asked.
#[derive(Debug, Error)]
pub enum ClientError {
    /// It is not there, or went away.
    #[error("the proxy cannot be reached at `{}`", .0.display())]
    Unreachable(PathBuf, #[source] io::Error),
    /// It does not want to.
    #[error("the proxy refuses: {message}")]
    Refused {
        /// For programs.
        code: String,
        /// For people.
        message: String,
        /// What to do.
        hint: String,
    },
    /// It says something that no proxy says.
    #[error("the proxy's answer makes no sense")]
    Answer,
    /// It did not start.
    #[error("the proxy does not start: {0}")]
    Start(String, #[source] io::Error),
}

impl Hint for ClientError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable(..) => Some("start one: agent-sandbox proxy".into()),
            Self::Refused { hint, .. } => Some(hint.clone()),
            Self::Answer => {
                Some("it may be of another version: end it, and it is started anew".into())
            }
            Self::Start(..) => Some("run `agent-sandbox proxy` and see what it says".into()),
        }
    }
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The admin interface of a user's proxy.
#[derive(Debug, Clone)]
pub struct Client {
    dirs: ProxyDirs,
}

impl Client {
    /// Returns a client of the proxy with these directories, which need not run.
    pub fn new(dirs: &ProxyDirs) -> Self {
        Self { dirs: dirs.clone() }
    }

    /// Whether it runs, and which version.
    pub fn health(&self) -> Result<Value, ClientError> {
        self.ask("GET", "/v1/health", None)
    }

    /// Its sessions, without secrets.
    pub fn sessions(&self) -> Result<Value, ClientError> {
        self.ask("GET", "/v1/sessions", None)
    }

    /// What sessions have used.
    pub fn usage(&self) -> Result<Value, ClientError> {
        self.ask("GET", "/v1/usage", None)
    }

    /// Adds a session.
    pub fn register(&self, session: &Registration) -> Result<(), ClientError> {
        let message = session.to_json().map_err(|_| ClientError::Answer)?;
        self.ask("POST", "/v1/sessions", Some(&message)).map(drop)
    }

    /// Ends a session.
    pub fn revoke(&self, token: &str) -> Result<(), ClientError> {
        self.ask("DELETE", &format!("/v1/sessions/{token}"), None).map(drop)
    }

    /// Ends all sessions of a sandbox.
    pub fn revoke_sandbox(&self, id: &str) -> Result<(), ClientError> {
        self.ask("DELETE", &format!("/v1/sandboxes/{id}/sessions"), None).map(drop)
    }

    /// Puts another key in the place of a session's.
    pub fn rotate(&self, token: &str, key: &str) -> Result<(), ClientError> {
        self.ask("PUT", &format!("/v1/sessions/{token}/key"), Some(&json!({ "api_key": key })))
            .map(drop)
    }

    /// Makes sessions ask for their keys again.
    pub fn forget_keys(&self) -> Result<(), ClientError> {
        self.ask("POST", "/v1/secrets/forget", None).map(drop)
    }

    /// Opens a sandbox's rendezvous socket, or replaces it.
    pub fn open_rendezvous(&self, id: &str, new: &NewRendezvous) -> Result<(), ClientError> {
        let message = new.to_json().map_err(|_| ClientError::Answer)?;
        self.ask("PUT", &format!("/v1/doors/{id}"), Some(&message)).map(drop)
    }

    /// Closes a sandbox's rendezvous socket and ends its sessions; one that is not there is closed.
    pub fn close_rendezvous(&self, id: &str) -> Result<(), ClientError> {
        self.ask("DELETE", &format!("/v1/doors/{id}"), None).map(drop)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, ClientError> {
        let socket = self.dirs.admin();
        let exchange = || exchange(&socket, method, path, body);
        let (status, answer) =
            exchange().map_err(|error| ClientError::Unreachable(socket.clone(), error))?;
        let value: Value = serde_json::from_slice(&answer).map_err(|_| ClientError::Answer)?;
        if (200..300).contains(&status) { Ok(value) } else { Err(refusal(&value)) }
    }

    /// Hands a sandbox's listeners over.
    pub fn attach(
        &self,
        attach: &Attach,
        listeners: &[BorrowedFd<'_>],
    ) -> Result<Attachment, ClientError> {
        let socket = self.dirs.attach();
        let failed = |error| ClientError::Unreachable(socket.clone(), error);
        let message = attach.to_json().map_err(|_| ClientError::Answer)?;
        let mut stream = UnixStream::connect(&socket).map_err(failed)?;
        let answer = hand_over(&mut stream, &message, listeners).map_err(failed)?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|_| ClientError::Answer)?;
        if answer["ok"] == true { Ok(Attachment(stream)) } else { Err(refusal(&answer)) }
    }

    /// Makes sure that a proxy runs: starts this program's own in the background where there is none.
    pub fn ensure(&self, program: &Path) -> Result<(), ClientError> {
        if self.health().is_ok() {
            return Ok(());
        }
        let why = |what: &str| ClientError::Start(what.to_owned(), io::ErrorKind::Other.into());
        let mut command = sandbox_linux::process::command(program);
        command
            .args(["proxy", "--detach"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let output = command
            .output()
            .map_err(|error| ClientError::Start("it cannot be run".into(), error))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let deadline = Instant::now() + PATIENCE;
        while output.status.success() && Instant::now() < deadline {
            if self.health().is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(why(text.trim()))
    }
}

/// A sandbox's hold on the proxy: its listeners and sessions end when this is dropped, or the proxy does.
#[derive(Debug)]
pub struct Attachment(UnixStream);

impl Attachment {
    /// Whether the proxy is gone, so that the sandbox has to attach again.
    pub fn is_gone(&self) -> bool {
        let fds = [(self.0.as_fd(), sandbox_linux::channel::Awaited::Data)];
        // Nothing is ever said on it, so that what can be read is its end.
        sandbox_linux::channel::wait(&fds, Some(0)).is_ok_and(|ready| ready == [true])
    }
}

impl AsFd for Attachment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn hand_over(
    stream: &mut UnixStream,
    message: &[u8],
    listeners: &[BorrowedFd<'_>],
) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let framed = framed(message)?;
    // Descriptors go with the first bytes; the rest follows as it fits.
    let first = framed.len().min(512);
    if listeners.is_empty() {
        stream.write_all(&framed[..first])?;
    } else {
        sandbox_linux::channel::send_with(stream.as_fd(), &framed[..first], listeners)?;
    }
    stream.write_all(&framed[first..])?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap_or(0).min(1 << 16)];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// One request and its answer, on a connection of its own.
fn exchange(
    socket: &Path,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = Zeroizing::new(body.map_or_else(String::new, Value::to_string));
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: proxy\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(wrong)?;
    while line.trim() != "" {
        line.clear();
        stream.read_line(&mut line)?;
    }
    // The connection closes behind the answer, so what comes is the whole of it.
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok((status, answer))
}

fn refusal(answer: &Value) -> ClientError {
    let text = |name: &str| answer["error"][name].as_str().map(str::to_owned);
    match (text("code"), text("message")) {
        (Some(code), Some(message)) => {
            ClientError::Refused { code, message, hint: text("hint").unwrap_or_default() }
        }
        _ => ClientError::Answer,
    }
}
