//! The way out of a sandbox that reaches hosts by name: sockets that were opened in its own network
//! and are served from outside. Nothing of ours runs inside, and nobody else can get out.

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use sandbox_linux::enclosure::{self, Ids};
use sandbox_linux::root::Failure;
use sandbox_linux::{channel, namespace, process};

use crate::network::PROXY_PORT;

/// How long nobody is asked again after nobody could be found.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whoever serves the way out.
pub trait Gateway {
    /// Sockets that are open outside already, for a command that shares the host's network.
    fn sockets(&mut self) -> Vec<OwnedFd> {
        Vec::new()
    }

    /// Takes the sockets over: the proxy's port, and, where they could be opened, the name server's
    /// (TCP, then UDP) and those of HTTPS and HTTP. `first` is the first process inside. What is
    /// returned can be read as soon as nobody serves them any more.
    fn attach(&mut self, first: i32, sockets: &[OwnedFd]) -> io::Result<OwnedFd>;
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

/// Opens them and sends them to whoever waits outside.
pub(super) fn send(sender: BorrowedFd<'_>) -> io::Result<()> {
    let sockets = open()?;
    let borrowed: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    channel::send_with(sender, b"N", &borrowed)
}

/// For a rendering that makes no network of its own: moves this process into a new one, and opens
/// the sockets there. bubblewrap refuses to start with powers that an ordinary user should not
/// have; as root it needs them, and takes them from the command.
pub(super) fn make(ids: &Ids, sender: BorrowedFd<'_>) -> Result<(), Failure> {
    let opened = namespace::own_network(ids)
        .and_then(|()| enclosure::raise_loopback())
        .and_then(|()| send(sender));
    let done = if process::uid() == 0 {
        opened
    } else {
        opened.and_then(|()| enclosure::clear_capabilities())
    };
    done.map_err(|error| Failure { what: "open the way out".into(), error })
}

/// The sockets, and who serves them at the moment.
pub(super) struct Exit {
    first: i32,
    sockets: Vec<OwnedFd>,
    /// Readable when it has gone.
    server: Option<OwnedFd>,
    /// Not to be asked for before.
    again: Option<Instant>,
}

impl Exit {
    pub(super) fn new(first: i32, sockets: Vec<OwnedFd>) -> Self {
        Self { first, sockets, server: None, again: None }
    }

    /// What becomes readable when the server has gone.
    pub(super) fn awaited(&self) -> Option<BorrowedFd<'_>> {
        self.server.as_ref().map(AsFd::as_fd)
    }

    /// Milliseconds until somebody is to be found, if nobody is there.
    pub(super) fn time_left(&self) -> Option<u64> {
        let again = self.again.filter(|_| self.server.is_none())?;
        let left = again.saturating_duration_since(Instant::now()).as_millis();
        Some(u64::try_from(left).unwrap_or(u64::MAX))
    }

    /// The server has gone; what waits inside waits until there is another.
    pub(super) fn lose(&mut self) {
        self.server = None;
    }

    /// Finds somebody to serve them, if nobody does. While that fails, nothing passes.
    pub(super) fn serve(&mut self, gateway: &mut dyn Gateway) {
        let is_early = self.again.is_some_and(|again| Instant::now() < again);
        if self.server.is_some() || is_early {
            return;
        }
        self.again = Some(Instant::now() + PATIENCE);
        self.server = gateway.attach(self.first, &self.sockets).ok();
    }
}
