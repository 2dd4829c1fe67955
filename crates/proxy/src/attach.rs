//! Attached sandboxes. A sandbox passes its listening sockets to the proxy over a connection. Closing the connection
//! closes the listeners and ends the sandbox's sessions.
//!
//! A message is its length in four bytes, then JSON. The descriptors come with the first byte (`SCM_RIGHTS`, `unix(7)`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use zeroize::Zeroizing;

use crate::Proxy;
use crate::accept::{Endpoint, Workers};
use crate::data::Scope;
pub use crate::egress::Egress;
use crate::egress::Sockets;
use crate::listen::{self, Listener};
use crate::session::{Registration, RegistrationError};
use sandbox_linux::error::chain;
use sandbox_protocol::Hint;

/// Error code while another sandbox with the same ID is attached.
pub const ATTACHED: &str = "attached";

/// Size limit of a message.
const LARGEST: usize = 1 << 20;

/// Request to attach a sandbox. The first descriptor is its proxy listener. The egress sockets follow.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// The sandbox's ID.
    pub sandbox_id: String,
    /// Hosts that the sandbox may reach by name.
    #[serde(default)]
    pub egress: Option<Egress>,
    /// Sessions, bound to the sandbox.
    #[serde(default)]
    pub sessions: Vec<Registration>,
}

impl Attach {
    /// Returns the message as JSON. It contains keys.
    pub fn to_json(&self) -> Result<Zeroizing<Vec<u8>>, serde_json::Error> {
        let sessions =
            self.sessions.iter().map(Registration::to_json).collect::<Result<Vec<_>, _>>()?;
        let message =
            json!({ "sandbox_id": self.sandbox_id, "egress": self.egress, "sessions": sessions });
        serde_json::to_vec(&message).map(Zeroizing::new)
    }
}

/// Serves one sandbox until its connection closes.
pub(crate) async fn serve(mut stream: UnixStream, proxy: Arc<Proxy>, workers: Arc<Workers>) {
    let mut attached = match begin(&mut stream, &proxy, &workers).await {
        Ok(attached) => attached,
        Err(refused) => {
            let Refused { code, message, hint } = refused;
            let why = json!({ "error": { "code": code, "message": message, "hint": hint } });
            let _ = reply(&mut stream, &why).await;
            return;
        }
    };
    if reply(&mut stream, &json!({ "ok": true })).await.is_ok() {
        // The client sends nothing more. The end of the stream ends the attachment.
        let mut rest = [0; 64];
        while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
    }
    attached.listeners.abort_all();
}

/// Error reply to a sandbox that cannot attach.
struct Refused {
    code: &'static str,
    message: String,
    hint: String,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        let taken = error.kind() == io::ErrorKind::AlreadyExists;
        let code = if taken { ATTACHED } else { "attach" };
        Self { code, message: chain(&error), hint: "see `proxy/log` in the state directory".into() }
    }
}

impl From<serde_json::Error> for Refused {
    fn from(error: serde_json::Error) -> Self {
        let hint =
            "the proxy may be a different version; stop it, and the next run starts a new one";
        Self { code: "attach", message: error.to_string(), hint: hint.into() }
    }
}

impl From<RegistrationError> for Refused {
    fn from(error: RegistrationError) -> Self {
        Self {
            code: "registration",
            message: chain(&error),
            hint: error.hint().unwrap_or_default(),
        }
    }
}

struct Attached {
    _presence: Presence,
    listeners: JoinSet<()>,
}

/// Registration of an attached sandbox. Dropping it ends the sandbox's sessions.
struct Presence {
    proxy: Arc<Proxy>,
    sandbox: String,
}

impl Presence {
    /// Registers a sandbox. Fails when one with this ID is already attached.
    fn new(proxy: &Arc<Proxy>, sandbox: &str) -> io::Result<Self> {
        if !proxy.admit(sandbox) {
            let message = format!("sandbox `{sandbox}` is already attached");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Ok(Self { proxy: proxy.clone(), sandbox: sandbox.to_owned() })
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.proxy.registry.revoke_bound(&self.sandbox);
        self.proxy.save();
        self.proxy.attached().remove(&self.sandbox);
    }
}

async fn begin(
    stream: &mut UnixStream,
    proxy: &Arc<Proxy>,
    workers: &Arc<Workers>,
) -> Result<Attached, Refused> {
    let (message, descriptors) = receive(stream).await?;
    let attach: Attach = serde_json::from_slice(&message)?;
    let sandbox = attach.sandbox_id;
    let egress = attach.egress.map(Egress::open).transpose()?;
    let presence = Presence::new(proxy, &sandbox)?;
    for mut session in attach.sessions {
        session.terms.sandbox_id = Some(sandbox.clone());
        let provider = session.terms.provider.clone();
        proxy.registry.register(session, true).map_err(|error| {
            let refused = Refused::from(error);
            let message = format!("secret for `{provider}`: {}", refused.message);
            Refused { message, ..refused }
        })?;
    }
    let endpoint = Endpoint::with_egress(Scope::Sandbox(sandbox), egress.clone());
    let mut listeners = JoinSet::new();
    let mut descriptors = descriptors.into_iter();
    if let Some(first) = descriptors.next() {
        listeners.spawn(listen::serve(Listener::adopt(first)?, endpoint, workers.clone()));
    }
    // A sandbox sends either all four egress sockets or none.
    let others: Result<[OwnedFd; 4], _> = descriptors.collect::<Vec<_>>().try_into();
    if let (Some(egress), Ok(others)) = (&egress, others) {
        Sockets::adopt(others)?.serve(egress, &mut listeners);
    }
    proxy.save();
    Ok(Attached { _presence: presence, listeners })
}

/// Reads a message and the descriptors that came with it.
async fn receive(stream: &mut UnixStream) -> io::Result<(Zeroizing<Vec<u8>>, Vec<OwnedFd>)> {
    let first = loop {
        stream.readable().await?;
        let read =
            stream.try_io(Interest::READABLE, || sandbox_linux::channel::receive(stream.as_fd()));
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => break other?.ok_or(io::ErrorKind::UnexpectedEof)?,
        }
    };
    let begun = Zeroizing::new(first.text);
    let (length, begun) = begun.split_first_chunk::<4>().ok_or(io::ErrorKind::UnexpectedEof)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > LARGEST || begun.len() > length {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    let mut message = Zeroizing::new(vec![0; length]);
    message[..begun.len()].copy_from_slice(begun);
    stream.read_exact(&mut message[begun.len()..]).await?;
    Ok((message, first.attached))
}

async fn reply(stream: &mut UnixStream, value: &Value) -> io::Result<()> {
    stream.write_all(&framed(value.to_string().as_bytes())?).await
}

/// Returns a message with its length as a prefix.
pub(crate) fn framed(message: &[u8]) -> io::Result<Zeroizing<Vec<u8>>> {
    let length = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut framed = Zeroizing::new(Vec::with_capacity(message.len() + 4));
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(message);
    Ok(framed)
}
