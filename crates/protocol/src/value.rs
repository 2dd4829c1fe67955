//! Values of container variables that take one of several words.

use std::fmt;

/// Engine that keeps the changes of a home apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cow {
    /// A database, served by FUSE.
    Agentfs,
    /// A directory, served by the kernel.
    Overlay,
    /// None: the copy of the home is the home.
    None,
}

impl Cow {
    /// Returns the word of the variable.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agentfs => "agentfs",
            Self::Overlay => "overlay",
            Self::None => "none",
        }
    }

    /// Reads the word of the variable.
    pub fn of(word: &[u8]) -> Option<Self> {
        [Self::Agentfs, Self::Overlay, Self::None].into_iter().find(|cow| is(word, cow.word()))
    }
}

/// Docker daemon beside the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dockerd {
    /// No daemon, even where one is installed.
    Off,
    /// A daemon where one is installed.
    Auto,
    /// A daemon, without which the session does not start.
    Required,
}

impl Dockerd {
    /// Returns the word of the variable.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Required => "required",
        }
    }

    /// Reads the word of the variable.
    pub fn of(word: &[u8]) -> Option<Self> {
        [Self::Off, Self::Auto, Self::Required].into_iter().find(|one| is(word, one.word()))
    }
}

fn is(word: &[u8], expected: &str) -> bool {
    word == expected.as_bytes()
}

/// Port that PID 1 listens at for the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// A TCP port.
    Tcp(u16),
    /// A UDP port.
    Udp(u16),
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(number) => write!(f, "tcp:{number}"),
            Self::Udp(number) => write!(f, "udp:{number}"),
        }
    }
}

impl Port {
    fn of(word: &str) -> Option<Self> {
        let (kind, number) = word.split_once(':')?;
        let number: u16 = number.parse().ok().filter(|number| *number > 0)?;
        match kind {
            "tcp" => Some(Self::Tcp(number)),
            "udp" => Some(Self::Udp(number)),
            _ => None,
        }
    }
}

/// Reads a list like `tcp:3128,udp:53`.
pub fn ports(text: &str) -> Option<Vec<Port>> {
    text.split(',').map(Port::of).collect()
}

/// Writes a list that [`ports`] reads.
pub fn port_list(ports: &[Port]) -> String {
    ports.iter().map(Port::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for cow in [Cow::Agentfs, Cow::Overlay, Cow::None] {
            assert_eq!(Cow::of(cow.word().as_bytes()), Some(cow));
        }
        for dockerd in [Dockerd::Off, Dockerd::Auto, Dockerd::Required] {
            assert_eq!(Dockerd::of(dockerd.word().as_bytes()), Some(dockerd));
        }
        for wrong in [&b""[..], b"None", b"zfs", b"yes"] {
            assert_eq!((Cow::of(wrong), Dockerd::of(wrong)), (None, None));
        }
    }

    #[test]
    fn ports_are_read_in_their_order_and_nothing_else_is() {
        let both = vec![Port::Tcp(3128), Port::Udp(53)];
        assert_eq!(port_list(&both), "tcp:3128,udp:53");
        assert_eq!(ports("tcp:3128,udp:53"), Some(both));
        for text in ["", "3128", "tcp:0", "tcp:65536", "tcp:1,", "sctp:1", "tcp: 1"] {
            assert_eq!(ports(text), None, "{text}");
        }
    }
}
