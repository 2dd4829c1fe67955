//! Rendezvous: the container passes its listening sockets to the proxy over a Unix socket (`SCM_RIGHTS`, unix(7)).
//! The proxy runs outside, where the agent cannot kill or trace it. Without a proxy, connections wait.

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use sandbox_protocol::rendezvous;
use sandbox_protocol::value::Port;

use super::step::StepError;

/// Initial and maximum back-off between attempts to attach to the proxy.
const SOON: Duration = Duration::from_millis(200);
const LATE: Duration = Duration::from_secs(2);

/// Path of the rendezvous socket, and the listeners to pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RendezvousSettings {
    pub(crate) path: PathBuf,
    pub(crate) address: Ipv4Addr,
    pub(crate) ports: Vec<Port>,
}

/// The listeners, and the connection to the proxy.
pub(crate) struct Rendezvous {
    path: PathBuf,
    sockets: Vec<OwnedFd>,
    server: Option<OwnedFd>,
    again: Instant,
    pause: Duration,
}

impl Rendezvous {
    /// Opens the listeners, and offers them for the first time.
    pub(crate) fn open(wanted: &RendezvousSettings) -> Result<Self, StepError> {
        let listen = |port: &Port| match port {
            Port::Tcp(port) => TcpListener::bind((wanted.address, *port)).map(OwnedFd::from),
            Port::Udp(port) => UdpSocket::bind((wanted.address, *port)).map(OwnedFd::from),
        };
        let sockets = wanted.ports.iter().map(listen).collect::<io::Result<_>>()?;
        let mut rendezvous = Self {
            path: wanted.path.clone(),
            sockets,
            server: None,
            again: Instant::now(),
            pause: SOON,
        };
        rendezvous.offer();
        Ok(rendezvous)
    }

    /// Returns the connection, which becomes readable when the proxy answers or goes away.
    pub(crate) fn server(&self) -> Option<BorrowedFd<'_>> {
        self.server.as_ref().map(AsFd::as_fd)
    }

    /// Returns when to offer the listeners again, if no proxy serves them.
    pub(crate) fn again(&self) -> Option<Instant> {
        self.server.is_none().then_some(self.again)
    }

    /// Passes the listeners to the proxy, if it is there and the back-off has passed.
    pub(crate) fn offer(&mut self) {
        if self.server.is_some() || Instant::now() < self.again {
            return;
        }
        self.server = self.hand_over().ok();
        self.again = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LATE);
    }

    /// Connects to the proxy and passes the listeners. Never blocks, because PID 1 must handle events.
    fn hand_over(&self) -> io::Result<OwnedFd> {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(&self.path)?)?;
        let sockets: Vec<_> = self.sockets.iter().map(AsFd::as_fd).collect();
        sandbox_linux::channel::send_with(socket.as_fd(), rendezvous::LISTENERS, &sockets)?;
        Ok(socket)
    }

    /// Reads the proxy's answer. The end of the connection is the end of its service.
    pub(crate) fn hear(&mut self) {
        let mut text = [0; 256];
        let Some(server) = &self.server else { return };
        match rustix::io::read(server, &mut text) {
            Ok(count) if rendezvous::is_served(&text[..count]) => self.pause = SOON,
            Ok(count) if count > 0 => {
                let said = String::from_utf8_lossy(&text[..count]).trim().to_owned();
                super::LOG.warn(format_args!("the proxy does not serve this container: {said}"));
                self.server = None;
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            _ => self.server = None,
        }
    }
}
