//! Network of the command, and the words for it.

use serde::{Deserialize, Serialize};

/// Network of the command, in order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// The host's network.
    On,
    /// Only listed hosts, through the proxy.
    Allow,
    /// A private network namespace with only loopback.
    Off,
}

/// Word that is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use true (or host), false (or none), or allow")]
pub struct NotANetwork;

impl std::str::FromStr for Network {
    type Err = NotANetwork;

    /// Parses the value of `--network`.
    fn from_str(word: &str) -> Result<Self, NotANetwork> {
        match (word, switch(word)) {
            ("host", _) | (_, Some(true)) => Ok(Self::On),
            ("none", _) | (_, Some(false)) => Ok(Self::Off),
            ("allow", _) => Ok(Self::Allow),
            _ => Err(NotANetwork),
        }
    }
}

/// Parses a boolean word, such as `true`, `yes` or `0`.
pub fn switch(word: &str) -> Option<bool> {
    match word {
        "1" | "t" | "T" | "true" | "TRUE" | "True" | "yes" | "on" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" | "no" | "off" => Some(false),
        _ => None,
    }
}

impl Network {
    /// Returns the word for it in output.
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Allow => "allow",
            Self::Off => "off",
        }
    }
}
