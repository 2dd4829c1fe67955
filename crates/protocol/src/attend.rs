//! Protocol between a caller and `agent-sandbox-init attend`, which runs one command. The caller sends frames on
//! standard input, so `attend` can tell the caller's exit from the end of the command's input.
//!
//! ```text
//! kind   1 byte    0 input, 1 end of input, 2 terminal size (rows and columns, 2 bytes each)
//! length 4 bytes   length of the body, big endian
//! ```

const INPUT: u8 = 0;
const END: u8 = 1;
const SIZE: u8 = 2;
const HEAD: usize = 5;

/// Byte on standard error that reports a stopped command on a terminal.
pub const STOPPED: u8 = 0x1a;
/// Argument that replaces the terminal size for a command without a terminal.
pub(crate) const NO_TERMINAL: &str = "-";

/// Size of a terminal: rows and columns.
pub type Size = (u16, u16);

/// Message from the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Input for the command.
    Input(&'a [u8]),
    /// End of the command's input.
    End,
    /// New size of the terminal.
    Resize(Size),
    /// Frame of an unknown kind or shape, which is skipped.
    Unknown,
}

impl<'a> Frame<'a> {
    /// Returns the bytes of a frame with input.
    pub fn input(text: &[u8]) -> Vec<u8> {
        encode(INPUT, text)
    }

    /// Returns the bytes of the frame that ends the input.
    pub fn end() -> Vec<u8> {
        encode(END, &[])
    }

    /// Returns the bytes of a frame with a new size.
    pub fn resize((rows, columns): Size) -> Vec<u8> {
        let ([a, b], [c, d]) = (rows.to_be_bytes(), columns.to_be_bytes());
        encode(SIZE, &[a, b, c, d])
    }

    /// Reads the first frame. Returns it with its length in bytes, or `None` while it is incomplete.
    pub fn first(raw: &'a [u8]) -> Option<(Self, usize)> {
        let [kind, a, b, c, d] = *raw.first_chunk::<HEAD>()?;
        let end = HEAD + u32::from_be_bytes([a, b, c, d]) as usize;
        let frame = match (kind, raw.get(HEAD..end)?) {
            (INPUT, text) => Self::Input(text),
            (END, _) => Self::End,
            (SIZE, &[a, b, c, d]) => {
                Self::Resize((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
            }
            _ => Self::Unknown,
        };
        Some((frame, end))
    }
}

fn encode(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[kind], &length[..], body].concat()
}

/// Returns the argument for a terminal of this size, or for no terminal.
pub fn terminal_argument(size: Option<Size>) -> String {
    size.map_or_else(|| NO_TERMINAL.to_owned(), |(rows, columns)| format!("{rows}x{columns}"))
}

/// Parses an argument made by [`terminal_argument`].
pub fn terminal_size(argument: &str) -> Option<Size> {
    let (rows, columns) = argument.split_once('x')?;
    Some((rows.parse().ok()?, columns.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_takes_whole_frames_only() {
        let mut raw = [&[INPUT, 0, 0, 0, 2][..], b"ab", &[END, 0, 0, 0, 0, SIZE, 0, 0]].concat();
        assert_eq!(Frame::first(&raw), Some((Frame::Input(b"ab"), 7)));
        assert_eq!(Frame::first(&raw[7..]), Some((Frame::End, 5)));
        assert_eq!(Frame::first(&raw[12..]), None);
        raw.extend([0, 4, 0, 24, 0, 80]);
        assert_eq!(Frame::first(&raw[12..]), Some((Frame::Resize((24, 80)), 9)));
        assert_eq!(Frame::first(&[SIZE, 0, 0, 0, 1, 7]), Some((Frame::Unknown, 6)));
        assert_eq!(Frame::first(&[9, 0, 0, 0, 0]), Some((Frame::Unknown, 5)));
    }

    #[test]
    fn frames_round_trip() {
        assert_eq!(Frame::first(&Frame::input(b"ab")), Some((Frame::Input(b"ab"), 7)));
        assert_eq!(Frame::first(&Frame::end()), Some((Frame::End, 5)));
        let size = (33, 1001);
        assert_eq!(Frame::first(&Frame::resize(size)), Some((Frame::Resize(size), 9)));
    }

    #[test]
    fn terminal_argument_round_trips() {
        for size in [Some((33, 101)), None] {
            assert_eq!(terminal_size(&terminal_argument(size)), size);
        }
    }
}
