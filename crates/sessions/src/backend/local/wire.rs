//! Messages between a caller outside and the server inside, and the order that describes a command.
//!
//! The caller trusts nothing from inside. It accepts known messages of bounded length, and one descriptor, which it
//! checks: the sandbox's devpts directory. The server accepts every connection, because only the session's owner can
//! reach its socket.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use sandbox_linux::fd;

/// Version of the messages. Raised by changes that an older supervisor does not understand.
pub(super) const VERSION: u32 = 1;

/// Request: state of the server.
pub(super) const HELLO: u8 = b'H';
/// Request: start a command. Comes with an order in a memfd, and three streams.
pub(super) const EXEC: u8 = b'E';
/// Request: send a signal, whose number follows.
pub(super) const SIGNAL: u8 = b'K';

/// Request: the sandbox's devpts.
pub(super) const TERMINALS: u8 = b'T';

/// Request: report the end of the agent.
pub(super) const AWAIT: u8 = b'A';

/// Response: ready. The agent's state follows: nothing, `r`, or `e` and its exit code.
pub(super) const READY: u8 = b'R';
/// Response: the command did not start. Exit code and reason follow.
pub(super) const FAILED: u8 = b'X';
/// Response: the command stopped and waits to be continued.
pub(super) const STOPPED: u8 = b'S';
/// Response: the command ended. The exit code follows.
pub(super) const ENDED: u8 = b'Z';

/// Maximum size of an order. The kernel accepts no longer command line: execve(2).
pub(super) const LONGEST: usize = 8 << 20;

/// Command to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) argv: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) terminal: bool,
}

impl Order {
    /// Encodes the order as NUL-terminated words. No part of a command can contain NUL.
    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut word = |text: &[u8]| {
            if text.contains(&0) {
                let why = "the command or its environment contains NUL";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            bytes.extend_from_slice(text);
            bytes.push(0);
            Ok(())
        };
        word(if self.terminal { b"t" } else { b"p" })?;
        word(self.cwd.as_ref().map_or(&[][..], |cwd| cwd.as_os_str().as_bytes()))?;
        word(self.argv.len().to_string().as_bytes())?;
        for argument in &self.argv {
            word(argument.as_bytes())?;
        }
        for (name, value) in &self.env {
            word(name.as_bytes())?;
            word(value.as_bytes())?;
        }
        Ok(bytes)
    }

    /// Returns the order as a memfd.
    pub(super) fn to_file(&self) -> io::Result<OwnedFd> {
        let bytes = self.encode()?;
        if bytes.len() > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the command is too long"));
        }
        fd::memory_file("order", &bytes)
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut words = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
        let terminal = match words.next()? {
            b"t" => true,
            b"p" => false,
            _ => return None,
        };
        let text = |word: &[u8]| OsString::from_vec(word.to_vec());
        let cwd = Some(words.next()?).filter(|cwd| !cwd.is_empty()).map(|cwd| text(cwd).into());
        let count: usize = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        let argv: Vec<OsString> = words.by_ref().take(count).map(text).collect();
        let mut env = Vec::new();
        while let Some(name) = words.next() {
            env.push((text(name), text(words.next()?)));
        }
        (argv.len() == count && count > 0).then_some(Self { argv, env, cwd, terminal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(argv: &[&str], env: &[(&str, &str)], cwd: Option<&str>, terminal: bool) -> Order {
        Order {
            argv: argv.iter().map(OsString::from).collect(),
            env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: cwd.map(PathBuf::from),
            terminal,
        }
    }

    #[test]
    fn decode_returns_what_encode_wrote() {
        for order in [
            order(&["ls"], &[], None, false),
            order(&["sh", "-c", "a\nb", ""], &[("A", ""), ("B", "x=y")], Some("/p q"), true),
            order(&["", ""], &[("", "")], None, false),
        ] {
            assert_eq!(Order::decode(&order.encode().unwrap()), Some(order));
        }
        let odd = OsString::from_vec(vec![0xff, b'\n']);
        let order = Order { argv: vec![odd], ..order(&[], &[], None, false) };
        assert_eq!(Order::decode(&order.encode().unwrap()), Some(order));
    }

    #[test]
    fn decode_refuses_invalid_orders() {
        for bytes in [
            &b""[..],
            b"p",
            b"p\0",
            b"x\0\x001\0ls\0",
            b"p\0\x000\0",
            b"p\0\x002\0ls\0",
            b"p\0\x001\0ls\0NAME\0",
            b"p\0\x00-1\0ls\0",
            b"p\0\x0099999999999999999999\0ls\0",
        ] {
            assert_eq!(Order::decode(bytes), None, "{bytes:?}");
        }
        assert!(order(&["a\0b"], &[], None, false).encode().is_err());
    }
}
