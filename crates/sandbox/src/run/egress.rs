//! Egress of a sandbox that reaches hosts by name: sockets that were opened in its own network
//! and are served from outside. No process of ours runs inside, and there is no other way out.

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use sandbox_linux::enclosure::{self, Ids};
use sandbox_linux::root::Failure;
use sandbox_linux::{channel, namespace, process};
use sandbox_protocol::report;

use sandbox_policy::network::PROXY_PORT;

/// Back-off between attempts to attach to the proxy.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long attempts to attach again may fail before the sockets are closed. Requests then fail at once
/// instead of waiting for a proxy that does not come back.
const LOST: Duration = Duration::from_secs(15);

/// Why the proxy does not serve a sandbox.
#[derive(Debug, thiserror::Error)]
#[error("cannot attach the sandbox to the proxy")]
pub struct AttachError {
    /// The reason.
    pub source: Box<dyn Error + Send + Sync>,
    /// The next step.
    pub hint: Option<String>,
}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> Self {
        Self { source: error.into(), hint: None }
    }
}

/// The proxy that serves the sockets of a sandbox.
pub trait Gateway {
    /// Sockets that are open outside already, for a command that shares the host's network.
    fn sockets(&mut self) -> Vec<OwnedFd> {
        Vec::new()
    }

    /// Takes the sockets over: the proxy's port, and, where they could be opened, the name server's
    /// (TCP, then UDP) and those of HTTPS and HTTP. `first` is the first process inside. What is
    /// returned can be read as soon as nobody serves them any more.
    fn attach(&mut self, first: i32, sockets: &[OwnedFd]) -> Result<OwnedFd, AttachError>;

    /// Closes what it holds of the sockets: the proxy is lost for good, and requests have to fail.
    fn give_up(&mut self) {}
}

/// Opens the sockets in the network of this process. Without the right to use low ports there is
/// only the first.
pub(super) fn open() -> io::Result<Vec<OwnedFd>> {
    let tcp = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(OwnedFd::from);
    let proxy = tcp(PROXY_PORT)?;
    let low = || -> io::Result<_> {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)).map(OwnedFd::from)?;
        Ok([tcp(53)?, udp, tcp(443)?, tcp(80)?])
    };
    match low() {
        Ok(low) => Ok([proxy].into_iter().chain(low).collect()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(vec![proxy]),
        Err(error) => Err(error),
    }
}

/// Opens them, sends them to the supervisor, and waits until they are served. The caller has to end with
/// the supervisor: it holds both ends of the channel, so that it would never see its end.
pub(super) fn send(sender: BorrowedFd<'_>) -> io::Result<()> {
    let sockets = open()?;
    let borrowed: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    channel::send_with(sender, &[report::SOCKETS], &borrowed)?;
    let mut answer = [0; 1];
    match channel::read(sender, &mut answer)? {
        1 if answer == [report::SERVED] => Ok(()),
        _ => Err(io::Error::other("the proxy does not serve the sandbox")),
    }
}

/// Attaches the sockets of a command that shares the host's network, before anything is started.
pub(super) fn shared(gateway: &mut (dyn Gateway + '_)) -> Result<Option<Egress>, AttachError> {
    let sockets = gateway.sockets();
    if sockets.is_empty() {
        return Ok(None);
    }
    let mut egress = Egress::new(0, sockets);
    egress.serve(gateway)?;
    egress.state = State::Begun;
    Ok(Some(egress))
}

/// For a rendering that makes no network of its own: moves this process into a new one, and opens
/// the sockets there. bubblewrap refuses to start with powers that an ordinary user should not
/// have; as root it needs them, and takes them from the command.
pub(super) fn make(ids: &Ids, parent: i32, sender: BorrowedFd<'_>) -> Result<(), Failure> {
    let opened = namespace::own_network(ids)
        .and_then(|()| enclosure::raise_loopback())
        .and_then(|()| process::die_with_parent(parent))
        .and_then(|()| send(sender));
    let done = if process::uid() == 0 {
        opened
    } else {
        opened.and_then(|()| enclosure::clear_capabilities())
    };
    done.map_err(|error| Failure { what: "open the way out".into(), error })
}

/// The sockets, and the connection to the proxy that serves them.
pub(super) struct Egress {
    first: i32,
    sockets: Vec<OwnedFd>,
    /// Readable when the proxy has gone.
    server: Option<OwnedFd>,
    /// The end of the back-off.
    again: Option<Instant>,
    state: State,
}

/// The state of the connection to the proxy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No proxy has served the sockets yet, and nothing runs inside.
    New,
    /// The sandbox was told to begin.
    Begun,
    /// Attempts to attach again have failed since then.
    Failing(Instant),
    /// The sockets are closed.
    Lost,
}

impl Egress {
    pub(super) fn new(first: i32, sockets: Vec<OwnedFd>) -> Self {
        Self { first, sockets, server: None, again: None, state: State::New }
    }

    /// The descriptor that becomes readable when the proxy has gone.
    pub(super) fn awaited(&self) -> Option<BorrowedFd<'_>> {
        self.server.as_ref().map(AsFd::as_fd)
    }

    /// Milliseconds until the next attempt, if no proxy serves the sockets.
    pub(super) fn time_left(&self) -> Option<u64> {
        let again = self.again.filter(|_| self.server.is_none() && self.state != State::Lost)?;
        let left = again.saturating_duration_since(Instant::now()).as_millis();
        Some(u64::try_from(left).unwrap_or(u64::MAX))
    }

    /// Notes that the proxy has gone. Requests wait until another one serves the sockets.
    pub(super) fn lose(&mut self) {
        self.server = None;
    }

    /// Attaches to a proxy, if none serves the sockets. The first attempt has to succeed; later ones are
    /// repeated until they do, or until the proxy is lost for good.
    pub(super) fn serve(&mut self, gateway: &mut dyn Gateway) -> Result<(), AttachError> {
        let is_early = self.again.is_some_and(|again| Instant::now() < again);
        if self.server.is_some() || is_early || self.state == State::Lost {
            return Ok(());
        }
        self.again = Some(Instant::now() + PATIENCE);
        match gateway.attach(self.first, &self.sockets) {
            Ok(server) => {
                self.server = Some(server);
                if self.state != State::New {
                    self.state = State::Begun;
                }
            }
            Err(error) => match self.state {
                State::New => return Err(error),
                State::Begun => self.state = State::Failing(Instant::now()),
                State::Failing(since) if since.elapsed() > LOST => {
                    self.state = State::Lost;
                    self.sockets.clear();
                    gateway.give_up();
                }
                State::Failing(_) | State::Lost => {}
            },
        }
        Ok(())
    }

    /// Tells the sandbox, once, that it may begin.
    pub(super) fn let_begin(&mut self, receiver: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if self.state == State::New {
            self.state = State::Begun;
            // A sandbox that shares the host's network has not asked, and does not wait.
            if let Some(receiver) = receiver.filter(|_| self.first != 0) {
                return channel::send(receiver, &[report::SERVED]);
            }
        }
        Ok(())
    }
}
