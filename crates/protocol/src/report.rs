//! Messages between the processes inside a sandbox and the supervisor of the run. The first byte is the kind.

/// The command is about to run. Descriptors that refer to the first process may be attached.
pub const STARTED: u8 = b'S';
/// Listening sockets are attached. The supervisor passes them to the proxy and answers [`SERVED`].
pub const SOCKETS: u8 = b'N';
/// The sockets are served.
pub const SERVED: u8 = b'G';
/// The command stopped. The signal's number follows.
pub const STOPPED: u8 = b'T';
/// The command cannot run. The reason follows.
pub const FAILED: u8 = b'X';
/// This rendering cannot set up the sandbox, but another may. The reason follows.
pub const IMPOSSIBLE: u8 = b'I';
/// The sandbox is refused. The reason follows.
pub const REFUSED: u8 = b'R';

/// Returns the bytes of a message.
pub fn message(kind: u8, text: &str) -> Vec<u8> {
    [&[kind], text.as_bytes()].concat()
}
