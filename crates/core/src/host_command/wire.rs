//! What travels over the bridge's socket: frames of a kind, a length and a body.
//!
//! The client asks once, then sends input, signals and nothing else; the broker sends output of both kinds and one exit
//! code. Input is sent only as far as the broker has granted, so that a signal never waits behind it.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The longest body of a frame that carries data.
pub const LONGEST: usize = 64 << 10;
/// The longest request.
pub const LONGEST_REQUEST: usize = 1 << 20;
/// How much input may be on its way before the first grant.
pub const WINDOW: usize = 256 << 10;

/// What a frame is for.
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
    /// What it is for.
    pub kind: Kind,
    /// What it carries.
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

/// Bytes that make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// A kind that there is not.
    #[error("a frame of an unknown kind")]
    Kind,
    /// A body that is too long for its kind.
    #[error("a frame that is too long")]
    Length,
    /// No request.
    #[error("no request")]
    Request,
}

impl From<WireError> for io::Error {
    fn from(error: WireError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// The head of a frame: its kind, and how long its body is.
pub fn head(bytes: [u8; 5]) -> Result<(Kind, usize), WireError> {
    let (kind, _) = KINDS.into_iter().find(|(_, byte)| *byte == bytes[0]).ok_or(WireError::Kind)?;
    let length = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    let length = usize::try_from(length).map_err(|_| WireError::Length)?;
    let longest = match kind {
        Kind::Request => LONGEST_REQUEST,
        Kind::Input | Kind::Output | Kind::Error => LONGEST,
        Kind::InputEnd => 0,
        Kind::Signal | Kind::Exit => 1,
        Kind::Grant => 4,
    };
    if length > longest { Err(WireError::Length) } else { Ok((kind, length)) }
}

/// Writes a frame, in one call.
pub fn write(mut out: impl Write, kind: Kind, body: &[u8]) -> io::Result<()> {
    let byte = KINDS.into_iter().find(|(known, _)| *known == kind).map_or(b'?', |(_, byte)| byte);
    let length = u32::try_from(body.len()).map_err(|_| WireError::Length)?;
    let mut frame = Vec::with_capacity(body.len() + 5);
    frame.push(byte);
    frame.extend(length.to_le_bytes());
    frame.extend_from_slice(body);
    out.write_all(&frame)
}

/// Reads a frame; `None` at the end.
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
    /// As bytes: each part with a NUL at its end, which no word of a command can hold.
    pub fn encode(&self) -> Vec<u8> {
        let words = self.argv.iter().map(OsString::as_os_str);
        [self.cwd.as_os_str()].into_iter().chain(words).fold(Vec::new(), |mut bytes, part| {
            bytes.extend_from_slice(part.as_bytes());
            bytes.push(0);
            bytes
        })
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let bytes = bytes.strip_suffix(b"\0").ok_or(WireError::Request)?;
        let mut parts = bytes.split(|byte| *byte == 0);
        let cwd = Path::new(OsStr::from_bytes(parts.next().unwrap_or_default())).to_owned();
        let argv: Vec<OsString> = parts.map(|part| OsString::from_vec(part.to_vec())).collect();
        let named = argv.first().is_some_and(|name| !name.is_empty());
        if cwd.is_absolute() && named { Ok(Self { cwd, argv }) } else { Err(WireError::Request) }
    }
}

#[cfg(test)]
mod tests;
