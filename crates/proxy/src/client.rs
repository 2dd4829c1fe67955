//! Blocking client of the admin and attach sockets, for programs without an async runtime. Also starts the proxy.

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

/// Failure of a request to the proxy.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The proxy is not running, or the connection broke.
    #[error("cannot reach the proxy at `{}`", .0.display())]
    Unreachable(PathBuf, #[source] io::Error),
    /// The proxy refused the request.
    #[error("the proxy refused the request: {message}")]
    Refused {
        /// Error code.
        code: String,
        /// Message.
        message: String,
        /// Hint.
        hint: String,
    },
    /// The response is not valid.
    #[error("the proxy sent an invalid response")]
    Answer,
    /// The proxy did not start.
    #[error("cannot start the proxy: {0}")]
    Start(String, #[source] io::Error),
}

impl Hint for ClientError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable(..) => Some("start one with `agent-sandbox proxy`".into()),
            Self::Refused { hint, .. } => Some(hint.clone()),
            Self::Answer => Some(
                "the proxy may be a different version; stop it, and the next run starts a new one"
                    .into(),
            ),
            Self::Start(..) => {
                Some("run `agent-sandbox proxy` in the foreground to see the error".into())
            }
        }
    }
}

/// Longest wait for a response.
const PATIENCE: Duration = Duration::from_secs(10);

/// Client of a user's proxy.
#[derive(Debug, Clone)]
pub struct Client {
    dirs: ProxyDirs,
}

impl Client {
    /// Returns a client for the proxy with these directories. It need not be running.
    pub fn new(dirs: &ProxyDirs) -> Self {
        Self { dirs: dirs.clone() }
    }

    /// Returns the proxy's status and version.
    pub fn health(&self) -> Result<Value, ClientError> {
        self.ask("GET", "/v1/health", None)
    }

    /// Returns the sessions, without secrets.
    pub fn sessions(&self) -> Result<Value, ClientError> {
        self.ask("GET", "/v1/sessions", None)
    }

    /// Returns the usage of sessions.
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

    /// Replaces a session's key.
    pub fn rotate(&self, token: &str, key: &str) -> Result<(), ClientError> {
        self.ask("PUT", &format!("/v1/sessions/{token}/key"), Some(&json!({ "api_key": key })))
            .map(drop)
    }

    /// Clears cached keys, so that sessions resolve them again.
    pub fn forget_keys(&self) -> Result<(), ClientError> {
        self.ask("POST", "/v1/secrets/forget", None).map(drop)
    }

    /// Opens a sandbox's rendezvous socket, or replaces it.
    pub fn open_rendezvous(&self, id: &str, new: &NewRendezvous) -> Result<(), ClientError> {
        let message = new.to_json().map_err(|_| ClientError::Answer)?;
        self.ask("PUT", &format!("/v1/doors/{id}"), Some(&message)).map(drop)
    }

    /// Closes a sandbox's rendezvous socket and ends its sessions. Succeeds if there is none.
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

    /// Passes a sandbox's listening sockets to the proxy.
    pub fn attach(
        &self,
        attach: &Attach,
        listeners: &[BorrowedFd<'_>],
    ) -> Result<Attachment, ClientError> {
        let socket = self.dirs.attach();
        let failed = |error| ClientError::Unreachable(socket.clone(), error);
        let message = attach.to_json().map_err(|_| ClientError::Answer)?;
        let mut stream = UnixStream::connect(&socket).map_err(failed)?;
        let answer = send_attach(&mut stream, &message, listeners).map_err(failed)?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|_| ClientError::Answer)?;
        if answer["ok"] == true { Ok(Attachment(stream)) } else { Err(refusal(&answer)) }
    }

    /// Ensures that a proxy is running. If not, starts `program` as one in the background.
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
            .map_err(|error| ClientError::Start("cannot execute the program".into(), error))?;
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

/// A sandbox's attachment. Its listeners and sessions end when this is dropped or the proxy exits.
#[derive(Debug)]
pub struct Attachment(UnixStream);

impl Attachment {
    /// Returns true when the proxy is gone and the sandbox has to attach again.
    pub fn is_gone(&self) -> bool {
        let fds = [(self.0.as_fd(), sandbox_linux::channel::Awaited::Data)];
        // The proxy sends nothing after the reply, so readable means end of stream.
        sandbox_linux::channel::wait(&fds, Some(0)).is_ok_and(|ready| ready == [true])
    }
}

impl AsFd for Attachment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn send_attach(
    stream: &mut UnixStream,
    message: &[u8],
    listeners: &[BorrowedFd<'_>],
) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let framed = framed(message)?;
    // Descriptors go with the first bytes, which fit into the socket buffer.
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

/// Sends one request on a new connection and returns the status and body.
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
    // `connection: close`, so the body ends with the stream.
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
