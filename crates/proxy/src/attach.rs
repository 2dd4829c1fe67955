//! Sandboxes that hand their listeners over. The connection is their lifetime: when it closes, their
//! listeners close and their sessions end.
//!
//! A message is its length in four bytes, then JSON. Descriptors come with the first byte.

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

/// The code of a refusal while a sandbox of the same name is attached.
pub const ATTACHED: &str = "attached";

/// The largest message.
const LARGEST: usize = 1 << 20;

/// What a sandbox says of itself. Its proxy listener comes with it, and those for names after that.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// Which sandbox it is.
    pub sandbox_id: String,
    /// Where it may go by name.
    #[serde(default)]
    pub egress: Option<Egress>,
    /// Its sessions, bound to this listener.
    #[serde(default)]
    pub sessions: Vec<Registration>,
}

impl Attach {
    /// The message. It has keys in it.
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
        // Nothing more is said; the end is what is waited for.
        let mut rest = [0; 64];
        while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
    }
    attached.listeners.abort_all();
}

/// Why a sandbox cannot attach.
struct Refused {
    code: &'static str,
    message: String,
    hint: String,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        let taken = error.kind() == io::ErrorKind::AlreadyExists;
        let code = if taken { ATTACHED } else { "attach" };
        Self { code, message: chain(&error), hint: "look at the proxy's log".into() }
    }
}

impl From<serde_json::Error> for Refused {
    fn from(error: serde_json::Error) -> Self {
        let hint = "the proxy may be of another version: stop it, and the next run starts one";
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

/// A sandbox that is attached. Its sessions end with this.
struct Presence {
    proxy: Arc<Proxy>,
    sandbox: String,
}

impl Presence {
    /// Nobody can attach under the name of a sandbox that is there.
    fn new(proxy: &Arc<Proxy>, sandbox: &str) -> io::Result<Self> {
        if !proxy.admit(sandbox) {
            let message = format!("the sandbox `{sandbox}` is attached already");
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
    let exit = attach.egress.map(Egress::exit).transpose()?;
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
    let endpoint = Endpoint::with_exit(Scope::Sandbox(sandbox), exit.clone());
    let mut listeners = JoinSet::new();
    let mut descriptors = descriptors.into_iter();
    if let Some(first) = descriptors.next() {
        listeners.spawn(listen::serve(Listener::adopt(first)?, endpoint, workers.clone()));
    }
    // Where the ports of names and of the web could be opened, all of them were.
    let others: Result<[OwnedFd; 4], _> = descriptors.collect::<Vec<_>>().try_into();
    if let (Some(exit), Ok(others)) = (&exit, others) {
        Sockets::adopt(others)?.serve(exit, &mut listeners);
    }
    proxy.save();
    Ok(Attached { _presence: presence, listeners })
}

/// Reads a message and what came with it.
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

/// A message with its length in front.
pub(crate) fn framed(message: &[u8]) -> io::Result<Zeroizing<Vec<u8>>> {
    let length = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut framed = Zeroizing::new(Vec::with_capacity(message.len() + 4));
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(message);
    Ok(framed)
}
