//! Conversation of a caller with `agent-sandbox-init attend`, which runs one command. The caller sends frames on
//! standard input, so that the end of the caller differs from the end of the command's input.
//!
//! ```text
//! kind   1 byte    0 input, 1 end of the input, 2 size of the terminal: rows and columns, 2 bytes each
//! length 4 bytes   of what follows, big endian
//! ```

const INPUT: u8 = 0;
const END: u8 = 1;
const SIZE: u8 = 2;
const HEAD: usize = 5;

/// Byte on standard error that says that a command on a terminal stopped.
pub const STOPPED: u8 = 0x1a;
/// Argument in the place of a terminal's size, for a command without a terminal.
pub const NO_TERMINAL: &str = "-";

/// Size of a terminal: rows and columns.
pub type Size = (u16, u16);

/// Message of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Input of the command.
    Input(&'a [u8]),
    /// End of the command's input.
    End,
    /// New size of the terminal.
    Resize(Size),
    /// Frame of another version, which is skipped.
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

    /// Reads the frame at the front. Returns it and its length in bytes, or nothing while it is not complete.
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

/// Returns the argument that asks for a terminal of a size, or for none.
pub fn terminal_argument(size: Option<Size>) -> String {
    size.map_or_else(|| NO_TERMINAL.to_owned(), |(rows, columns)| format!("{rows}x{columns}"))
}

/// Reads an argument of [`terminal_argument`].
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
    fn frames_are_read_as_they_are_written() {
        assert_eq!(Frame::first(&Frame::input(b"ab")), Some((Frame::Input(b"ab"), 7)));
        assert_eq!(Frame::first(&Frame::end()), Some((Frame::End, 5)));
        let size = (33, 1001);
        assert_eq!(Frame::first(&Frame::resize(size)), Some((Frame::Resize(size), 9)));
    }

    #[test]
    fn terminal_size_tells_a_size_from_no_terminal() {
        for size in [Some((33, 101)), None] {
            assert_eq!(terminal_size(&terminal_argument(size)), size);
        }
    }
}
