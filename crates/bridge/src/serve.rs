//! Serves requests from a Unix socket, or as the forced command of sshd.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use sandbox_linux::{holder, signal};
use sandbox_policy::Host;

use crate::server::Server;
use crate::{broker, forced};

pub use crate::server::{Options, ServeError};

/// Serves until told to end, or carries out the one request from sshd. Calls `listening` once clients can connect to a
/// socket. Returns the exit code.
pub fn serve(
    options: &Options,
    host: &Host,
    listening: &mut dyn FnMut(&Path),
) -> Result<u8, ServeError> {
    // Requests must not inherit the caller's ignored or blocked signals.
    signal::reset().map_err(ServeError::Serve)?;
    let server = Server::open(options, host)?;
    if options.locked {
        holder::sign_lock(io::stdin().as_fd()).map_err(ServeError::Serve)?;
    }
    match &options.listen {
        Some(socket) => broker::run(&server, socket, listening).map(|()| 0),
        None => forced::run(&server, host),
    }
}
