//! Typed values of container variables.

use std::fmt;

/// Engine of the copy-on-write layer on a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cow {
    /// Database served over FUSE.
    Agentfs,
    /// Kernel overlay with an upper directory.
    Overlay,
    /// No layer: the agent writes to its copy of the home.
    None,
}

impl Cow {
    /// Returns the value of the variable.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agentfs => "agentfs",
            Self::Overlay => "overlay",
            Self::None => "none",
        }
    }

    /// Parses the value of the variable.
    pub fn of(word: &[u8]) -> Option<Self> {
        [Self::Agentfs, Self::Overlay, Self::None].into_iter().find(|cow| is(word, cow.word()))
    }
}

/// Use of a Docker daemon beside the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dockerd {
    /// No daemon, even if one is installed.
    Off,
    /// Daemon if one is installed.
    Auto,
    /// Daemon required: the session does not start without one.
    Required,
}

impl Dockerd {
    /// Returns the value of the variable.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Required => "required",
        }
    }

    /// Parses the value of the variable.
    pub fn of(word: &[u8]) -> Option<Self> {
        [Self::Off, Self::Auto, Self::Required].into_iter().find(|one| is(word, one.word()))
    }
}

fn is(word: &[u8], expected: &str) -> bool {
    word == expected.as_bytes()
}

/// Port that PID 1 listens on for the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// TCP port.
    Tcp(u16),
    /// UDP port.
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

/// Parses a list such as `tcp:3128,udp:53`.
pub fn ports(text: &str) -> Option<Vec<Port>> {
    text.split(',').map(Port::of).collect()
}

/// Formats a list for [`ports`].
pub fn port_list(ports: &[Port]) -> String {
    ports.iter().map(Port::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
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
    fn ports_parses_lists_in_order_and_refuses_anything_else() {
        let both = vec![Port::Tcp(3128), Port::Udp(53)];
        assert_eq!(port_list(&both), "tcp:3128,udp:53");
        assert_eq!(ports("tcp:3128,udp:53"), Some(both));
        for text in ["", "3128", "tcp:0", "tcp:65536", "tcp:1,", "sctp:1", "tcp: 1"] {
            assert_eq!(ports(text), None, "{text}");
        }
    }
}
