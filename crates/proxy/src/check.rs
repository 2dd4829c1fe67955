//! Test of a secret: sends one request to its provider through a session of the proxy.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use sandbox_policy::catalog::provider::TestRequest;
use sandbox_protocol::{ExitCode, Hint};
use serde_json::Value;
use thiserror::Error;

use crate::attach::Attach;
use crate::client::{Client, ClientError};
use crate::error::ERROR_HEADER;
use crate::session::Registration;

/// Longest wait for the provider.
const PATIENCE: Duration = Duration::from_secs(60);

/// Failure to send the test request.
#[derive(Debug, Error)]
pub enum CheckError {
    /// The proxy does not serve the session.
    #[error("cannot use the proxy")]
    Proxy(#[source] ClientError),
    /// The proxy cannot be reached.
    #[error("cannot send a request through the proxy")]
    Io(#[from] io::Error),
    /// The proxy's response is not HTTP.
    #[error("the proxy sent an invalid response")]
    Answer,
}

impl Hint for CheckError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Proxy(error) => error.hint(),
            Self::Io(_) | Self::Answer => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::Failure
    }
}

/// Response to the test request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// True when the response came from the proxy, not from the provider.
    pub ours: bool,
    /// Error message in the response.
    pub message: String,
}

impl Answer {
    /// Returns true when the provider accepts the secret.
    pub fn accepted(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Sends a provider's test request with a session's secret. The proxy must be running.
pub fn check(
    client: &Client,
    session: Registration,
    test: &TestRequest,
) -> Result<Answer, CheckError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let token = session.token.clone();
    let attach = Attach {
        sandbox_id: format!("secret-test-{}", std::process::id()),
        egress: None,
        sessions: vec![session],
    };
    let _attached = client.attach(&attach, &[listener.as_fd()]).map_err(CheckError::Proxy)?;
    let exchange = || -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let token = token.text();
        write!(
            stream,
            "GET {} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {}\r\n",
            test.path, *token
        )?;
        for (name, value) in test.headers {
            write!(stream, "{name}: {value}\r\n")?;
        }
        stream.write_all(b"\r\n")?;
        let mut answer = Vec::new();
        stream.take(1 << 20).read_to_end(&mut answer)?;
        Ok(answer)
    };
    let bytes = exchange()?;
    read(&bytes).ok_or(CheckError::Answer)
}

fn read(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let ours = head.lines().any(|line| {
        line.split_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case(ERROR_HEADER))
    });
    // A chunked body has chunk sizes around the JSON.
    let inner = body.find('{').zip(body.rfind('}')).and_then(|(from, to)| body.get(from..=to));
    let value: Value = inner.and_then(|inner| serde_json::from_str(inner).ok()).unwrap_or_default();
    let said = value["error"]["message"].as_str().or_else(|| value["error"].as_str());
    let hint = value["error"]["hint"].as_str().map(|hint| format!("; {hint}")).unwrap_or_default();
    Some(Answer { status, ours, message: format!("{}{hint}", said.unwrap_or("no reason")) })
}
