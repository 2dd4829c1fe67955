//! Frames of the host-command bridge: a kind, a length and a body, over a Unix socket.
//!
//! The client sends one request, then input and signals. The broker sends standard output, standard error and one exit
//! code. The client sends only as much input as the broker has granted, so a signal never waits behind input.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Maximum body length of a frame that carries data.
pub const LONGEST: usize = 64 << 10;
/// Maximum length of a request.
pub(crate) const LONGEST_REQUEST: usize = 1 << 20;
/// Bytes of input that a client may send before the first grant.
pub const WINDOW: usize = 256 << 10;

/// Purpose of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// To the broker: the working directory and the command.
    Request,
    /// To the broker: standard input.
    Input,
    /// To the broker: end of standard input.
    InputEnd,
    /// To the broker: a signal for the command, one byte.
    Signal,
    /// To the client: standard output.
    Output,
    /// To the client: standard error.
    Error,
    /// To the client: number of further input bytes that it may send.
    Grant,
    /// To the client: the exit code, one byte. This is the last frame.
    Exit,
}

const KINDS: [(Kind, u8); 8] = [
    (Kind::Request, b'R'),
    (Kind::Input, b'I'),
    (Kind::InputEnd, b'E'),
    (Kind::Signal, b'S'),
    (Kind::Output, b'o'),
    (Kind::Error, b'e'),
    (Kind::Grant, b'g'),
    (Kind::Exit, b'x'),
];

/// Frame of the bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Purpose of the frame.
    pub kind: Kind,
    /// Payload.
    pub body: Vec<u8>,
}

/// Request to run a host command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Working directory, as a path inside the container.
    pub cwd: PathBuf,
    /// Command and its arguments.
    pub argv: Vec<OsString>,
}

/// Failure to decode a frame or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// Unknown kind.
    Kind,
    /// Body longer than its kind allows.
    Length,
    /// Body that is not a request.
    Request,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kind => "unknown frame kind",
            Self::Length => "frame too long",
            Self::Request => "invalid request",
        })
    }
}

impl Error for FrameError {}

impl From<FrameError> for io::Error {
    fn from(error: FrameError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// Decodes the header of a frame: its kind and the length of its body.
pub fn head(bytes: [u8; 5]) -> Result<(Kind, usize), FrameError> {
    let (kind, _) =
        KINDS.into_iter().find(|(_, byte)| *byte == bytes[0]).ok_or(FrameError::Kind)?;
    let length = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    let length = usize::try_from(length).map_err(|_| FrameError::Length)?;
    let longest = match kind {
        Kind::Request => LONGEST_REQUEST,
        Kind::Input | Kind::Output | Kind::Error => LONGEST,
        Kind::InputEnd => 0,
        Kind::Signal | Kind::Exit => 1,
        Kind::Grant => 4,
    };
    if length > longest { Err(FrameError::Length) } else { Ok((kind, length)) }
}

/// Writes a frame with a single call to `write_all`.
pub fn write(mut out: impl Write, kind: Kind, body: &[u8]) -> io::Result<()> {
    let byte = KINDS.into_iter().find(|(known, _)| *known == kind).map_or(b'?', |(_, byte)| byte);
    let length = u32::try_from(body.len()).map_err(|_| FrameError::Length)?;
    let mut frame = Vec::with_capacity(body.len() + 5);
    frame.push(byte);
    frame.extend(length.to_le_bytes());
    frame.extend_from_slice(body);
    out.write_all(&frame)
}

/// Reads a frame. Returns `None` at the end of the stream.
pub fn read(mut input: impl Read) -> io::Result<Option<Frame>> {
    let mut bytes = [0; 5];
    let mut filled = 0;
    while filled < bytes.len() {
        match input.read(&mut bytes[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let (kind, length) = head(bytes)?;
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(Some(Frame { kind, body }))
}

impl Request {
    /// Encodes the request. A NUL ends each part, because no argument can contain one.
    pub fn encode(&self) -> Vec<u8> {
        let words = self.argv.iter().map(OsString::as_os_str);
        [self.cwd.as_os_str()].into_iter().chain(words).fold(Vec::new(), |mut bytes, part| {
            bytes.extend_from_slice(part.as_bytes());
            bytes.push(0);
            bytes
        })
    }

    /// Decodes a request.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let bytes = bytes.strip_suffix(b"\0").ok_or(FrameError::Request)?;
        let mut parts = bytes.split(|byte| *byte == 0);
        let cwd = Path::new(OsStr::from_bytes(parts.next().unwrap_or_default())).to_owned();
        let argv: Vec<OsString> = parts.map(|part| OsString::from_vec(part.to_vec())).collect();
        let named = argv.first().is_some_and(|name| !name.is_empty());
        if cwd.is_absolute() && named { Ok(Self { cwd, argv }) } else { Err(FrameError::Request) }
    }
}

#[cfg(test)]
mod tests;
