//! Reports of the processes inside a sandbox to the supervisor of the run, and its answer. The first byte is the kind.

/// The command is about to run. Descriptors may follow, which lead to the first process.
pub const STARTED: u8 = b'S';
/// Listening sockets follow: the supervisor has them served and answers [`SERVED`].
pub const SOCKETS: u8 = b'N';
/// The sockets are served.
pub const SERVED: u8 = b'G';
/// The command stopped. The signal's number follows.
pub const STOPPED: u8 = b'T';
/// The command cannot run. The reason follows.
pub const FAILED: u8 = b'X';
/// The sandbox cannot be set up in this way, and another may work. The reason follows.
pub const IMPOSSIBLE: u8 = b'I';
/// The sandbox is refused. The reason follows.
pub const REFUSED: u8 = b'R';

/// Returns a message of a kind.
pub fn message(kind: u8, text: &str) -> Vec<u8> {
    [&[kind], text.as_bytes()].concat()
}
