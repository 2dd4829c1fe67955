//! Egress of a sandbox whose network is limited to a list of hosts. Listening sockets are opened in the sandbox's
//! network namespace, and the proxy serves them from outside. No proxy process runs inside, and the namespace has no
//! other connection.

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
const BACK_OFF: Duration = Duration::from_millis(500);

/// Time after which failed attempts to attach again close the sockets. Requests then fail at once instead of waiting
/// for a proxy that does not come back.
const GIVE_UP: Duration = Duration::from_secs(15);

/// Failure to attach a sandbox to the proxy.
#[derive(Debug, thiserror::Error)]
#[error("cannot attach the sandbox to the proxy")]
pub struct AttachError {
    /// The cause.
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
    /// Returns sockets that are open on the host already, for a command that shares the host's network.
    fn sockets(&mut self) -> Vec<OwnedFd> {
        Vec::new()
    }

    /// Passes the sockets to the proxy: its own port and, if they could be opened, the name server's (TCP, then UDP) and
    /// those of HTTPS and HTTP. `first` is PID 1 of the sandbox. The returned descriptor becomes readable when the proxy
    /// stops serving.
    fn attach(&mut self, first: i32, sockets: &[OwnedFd]) -> Result<OwnedFd, AttachError>;

    /// Closes the gateway's copies of the sockets. The proxy is gone for good, and requests have to fail.
    fn give_up(&mut self) {}
}

/// Opens the sockets in the network namespace of this process. Without the privilege to bind low ports there is only
/// the first.
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

/// Opens the sockets, sends them to the supervisor, and waits until they are served. The caller must die with the
/// supervisor: it holds both ends of the channel, so it would never see it close.
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
    egress.state = State::Started;
    Ok(Some(egress))
}

/// Moves this process into a new network namespace and opens the sockets there, for bubblewrap. bubblewrap refuses to
/// start with capabilities as an ordinary user, so they are dropped. As root it needs them, and drops them for the
/// command.
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
    done.map_err(|error| Failure { what: "open the proxy's sockets".into(), error })
}

/// Sockets of a sandbox, and the connection to the proxy that serves them.
pub(super) struct Egress {
    first: i32,
    sockets: Vec<OwnedFd>,
    /// Readable when the proxy has stopped serving.
    server: Option<OwnedFd>,
    /// Time of the next attempt.
    retry_at: Option<Instant>,
    state: State,
}

/// State of the connection to the proxy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No proxy has served the sockets yet, and the command has not started.
    New,
    /// The sandbox was told to start the command.
    Started,
    /// Attempts to attach again have failed since this time.
    Failing(Instant),
    /// The sockets are closed.
    Lost,
}

impl Egress {
    pub(super) fn new(first: i32, sockets: Vec<OwnedFd>) -> Self {
        Self { first, sockets, server: None, retry_at: None, state: State::New }
    }

    /// Returns the descriptor that becomes readable when the proxy stops serving.
    pub(super) fn awaited(&self) -> Option<BorrowedFd<'_>> {
        self.server.as_ref().map(AsFd::as_fd)
    }

    /// Returns the milliseconds until the next attempt, if no proxy serves the sockets.
    pub(super) fn time_left(&self) -> Option<u64> {
        let pending = self.server.is_none() && self.state != State::Lost;
        let retry_at = self.retry_at.filter(|_| pending)?;
        let left = retry_at.saturating_duration_since(Instant::now()).as_millis();
        Some(u64::try_from(left).unwrap_or(u64::MAX))
    }

    /// Records that the proxy has stopped serving. Requests wait until another one serves the sockets.
    pub(super) fn lose(&mut self) {
        self.server = None;
    }

    /// Attaches to a proxy, if none serves the sockets. The first attempt has to succeed. Later ones are repeated until
    /// they succeed, or until [`GIVE_UP`] has passed.
    pub(super) fn serve(&mut self, gateway: &mut dyn Gateway) -> Result<(), AttachError> {
        let is_early = self.retry_at.is_some_and(|retry_at| Instant::now() < retry_at);
        if self.server.is_some() || is_early || self.state == State::Lost {
            return Ok(());
        }
        self.retry_at = Some(Instant::now() + BACK_OFF);
        match gateway.attach(self.first, &self.sockets) {
            Ok(server) => {
                self.server = Some(server);
                if self.state != State::New {
                    self.state = State::Started;
                }
            }
            Err(error) => match self.state {
                State::New => return Err(error),
                State::Started => self.state = State::Failing(Instant::now()),
                State::Failing(since) if since.elapsed() > GIVE_UP => {
                    self.state = State::Lost;
                    self.sockets.clear();
                    gateway.give_up();
                }
                State::Failing(_) | State::Lost => {}
            },
        }
        Ok(())
    }

    /// Tells the sandbox, once, to start the command.
    pub(super) fn release(&mut self, receiver: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if self.state == State::New {
            self.state = State::Started;
            // A sandbox that shares the host's network does not wait for this.
            if let Some(receiver) = receiver.filter(|_| self.first != 0) {
                return channel::send(receiver, &[report::SERVED]);
            }
        }
        Ok(())
    }
}
