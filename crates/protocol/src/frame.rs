//! Frames of the host-command bridge: a kind, a length and a body, over a Unix socket.
//!
//! The client asks once, then sends input, signals and nothing else; the broker sends output of both kinds and one exit
//! code. Input is sent only as far as the broker has granted, so that a signal never waits behind it.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The longest body of a frame that carries data.
pub const LONGEST: usize = 64 << 10;
/// The longest request.
pub const LONGEST_REQUEST: usize = 1 << 20;
/// Bytes of input that a client may send before the first grant.
pub const WINDOW: usize = 256 << 10;

/// Purpose of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// To the broker: a working directory and words.
    Request,
    /// To the broker: standard input.
    Input,
    /// To the broker: the end of standard input.
    InputEnd,
    /// To the broker: a signal for the command, one byte.
    Signal,
    /// To the client: standard output.
    Output,
    /// To the client: standard error.
    Error,
    /// To the client: so many more bytes of input are welcome.
    Grant,
    /// To the client: the exit code, one byte. The last frame.
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

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its purpose.
    pub kind: Kind,
    /// Its payload.
    pub body: Vec<u8>,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The working directory, as the container knows it.
    pub cwd: PathBuf,
    /// The command and its arguments.
    pub argv: Vec<OsString>,
}

/// Bytes that are not a frame, or not a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The kind is unknown.
    Kind,
    /// The body is too long for its kind.
    Length,
    /// The body is not a request.
    Request,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kind => "a frame of an unknown kind",
            Self::Length => "a frame that is too long",
            Self::Request => "no request",
        })
    }
}

impl Error for FrameError {}

impl From<FrameError> for io::Error {
    fn from(error: FrameError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// Reads the head of a frame: its kind and the length of its body.
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

/// Writes a frame with one call.
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
    /// Encodes it: each part ends with a NUL, which no word of a command can hold.
    pub fn encode(&self) -> Vec<u8> {
        let words = self.argv.iter().map(OsString::as_os_str);
        [self.cwd.as_os_str()].into_iter().chain(words).fold(Vec::new(), |mut bytes, part| {
            bytes.extend_from_slice(part.as_bytes());
            bytes.push(0);
            bytes
        })
    }

    /// Decodes it.
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
