//! A command line as text: the quoting of POSIX shells, and nothing else of them.
//!
//! What a shell would expand, chain or redirect is refused, never carried out and never taken literally: a line means
//! here what it would mean in a shell, or it means nothing.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use sandbox_protocol::Hint;
use thiserror::Error;

/// The longest line that is read.
pub const LONGEST: usize = 64 << 10;

/// Why a line is no list of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LineError {
    /// Nothing in it.
    #[error("there is no command")]
    Empty,
    /// Too many bytes.
    #[error("the line is longer than {LONGEST} bytes")]
    TooLong,
    /// A newline, a NUL or the like.
    #[error("the line holds a control character, byte {0:#04x}")]
    Control(u8),
    /// What a shell would act upon.
    #[error("`{}` means something to a shell, and there is none here", *.0 as char)]
    Meaning(u8),
    /// A quote without an end.
    #[error("a quote is not closed")]
    Open,
    /// A backslash at the end.
    #[error("the line ends in a backslash")]
    Backslash,
}

impl Hint for LineError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Meaning(_) => "put single quotes around words that are meant as they are",
            Self::Empty => "name a command: `ssh HOST COMMAND`",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// Bytes that no shell takes literally outside of quotes.
const MEANING: &[u8] = b"|&;<>()$`*?[]{}!";

/// Reads a line.
///
/// ```
/// use sandbox_policy::config::command::line;
/// assert_eq!(line::parse(b"git log 'a b'").unwrap(), ["git", "log", "a b"]);
/// assert!(line::parse(b"git log; id").is_err());
/// ```
pub fn parse(text: &[u8]) -> Result<Vec<OsString>, LineError> {
    if text.len() > LONGEST {
        return Err(LineError::TooLong);
    }
    if let Some(byte) = text.iter().find(|byte| is_control(**byte)) {
        return Err(LineError::Control(*byte));
    }
    let mut reader = Reader { text, at: 0 };
    let mut words = Vec::new();
    while let Some(word) = reader.word()? {
        words.push(OsString::from_vec(word));
    }
    match words.first() {
        Some(first) if !first.is_empty() => Ok(words),
        _ => Err(LineError::Empty),
    }
}

/// Writes words so that [`parse`], and every shell, reads them again.
pub fn quote<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Result<String, LineError> {
    let mut line = String::new();
    for word in words {
        let bytes = word.as_ref().as_bytes();
        if let Some(byte) = bytes.iter().find(|byte| is_control(**byte)) {
            return Err(LineError::Control(*byte));
        }
        // What is no text cannot go by a text: the refusal is the caller's to show.
        let text = std::str::from_utf8(bytes).map_err(|_| LineError::Control(0xff))?;
        if !line.is_empty() {
            line.push(' ');
        }
        if !bytes.is_empty() && bytes.iter().all(|byte| is_plain(*byte)) {
            line.push_str(text);
        } else {
            line.extend(["'", &text.replace('\'', r"'\''"), "'"]);
        }
    }
    if line.len() > LONGEST { Err(LineError::TooLong) } else { Ok(line) }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte)
}

fn is_control(byte: u8) -> bool {
    (byte < b' ' && byte != b'\t') || byte == 0x7f
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = self.text.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn word(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        let start = self.at;
        let mut word = Vec::new();
        while let Some(byte) = self.next() {
            match byte {
                b' ' | b'\t' => return Ok(Some(word)),
                b'\'' => self.single(&mut word)?,
                b'"' => self.double(&mut word)?,
                b'\\' => word.push(self.next().ok_or(LineError::Backslash)?),
                // A comment and a home directory begin at the start of a word only.
                b'#' | b'~' if self.at == start + 1 => return Err(LineError::Meaning(byte)),
                // `a=~` and `a=b:~` are expanded in assignments.
                b'~' if matches!(self.text[self.at - 2], b'=' | b':') => {
                    return Err(LineError::Meaning(byte));
                }
                byte if MEANING.contains(&byte) => return Err(LineError::Meaning(byte)),
                byte => word.push(byte),
            }
        }
        Ok((self.at > start).then_some(word))
    }

    fn single(&mut self, word: &mut Vec<u8>) -> Result<(), LineError> {
        loop {
            match self.next().ok_or(LineError::Open)? {
                b'\'' => return Ok(()),
                byte => word.push(byte),
            }
        }
    }

    fn double(&mut self, word: &mut Vec<u8>) -> Result<(), LineError> {
        loop {
            match self.next().ok_or(LineError::Open)? {
                b'"' => return Ok(()),
                byte @ (b'$' | b'`') => return Err(LineError::Meaning(byte)),
                b'\\' => match self.next().ok_or(LineError::Open)? {
                    byte @ (b'$' | b'`' | b'"' | b'\\') => word.push(byte),
                    byte => word.extend([b'\\', byte]),
                },
                byte => word.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests;
