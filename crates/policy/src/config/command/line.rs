//! Parser for a command line with the quoting rules of POSIX shells.
//!
//! Text that a shell would expand, chain or redirect is refused. So an accepted line has the same words as in a shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use sandbox_protocol::Hint;
use thiserror::Error;

/// Longest line that is accepted.
pub const LONGEST: usize = 64 << 10;

/// Reason why a line is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LineError {
    /// The line is empty.
    #[error("there is no command")]
    Empty,
    /// The line has too many bytes.
    #[error("the line is longer than {LONGEST} bytes")]
    TooLong,
    /// The line contains a control character, such as a newline or a NUL.
    #[error("the line contains a control character (byte {0:#04x})")]
    Control(u8),
    /// The line contains a character that is special in a shell.
    #[error("shell metacharacter `{}` is not supported", *.0 as char)]
    Meaning(u8),
    /// A quote is not closed.
    #[error("unclosed quote")]
    Open,
    /// The line ends in a backslash.
    #[error("the line ends in a backslash")]
    Backslash,
}

impl Hint for LineError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Meaning(_) => {
                "quote literal text with single quotes; pipes and redirections are not supported"
            }
            Self::Empty => "name a command: `ssh HOST COMMAND`",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// Bytes that are special in a shell outside of quotes.
const MEANING: &[u8] = b"|&;<>()$`*?[]{}!";

/// Splits a line into words.
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

/// Quotes words, so that [`parse`] and every shell split the line into the same words.
pub fn quote<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Result<String, LineError> {
    let mut line = String::new();
    for word in words {
        let bytes = word.as_ref().as_bytes();
        if let Some(byte) = bytes.iter().find(|byte| is_control(**byte)) {
            return Err(LineError::Control(*byte));
        }
        // A word that is not UTF-8 cannot be part of a text.
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
                // `#` and `~` are special only at the start of a word.
                b'#' | b'~' if self.at == start + 1 => return Err(LineError::Meaning(byte)),
                // Shells expand `a=~` and `a=b:~` in assignments.
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
