//! `@agents`: what coding agents must be able to write to start at all.

use std::ffi::OsStr;

use super::Line;
use crate::config::Access::Rw;

/// State and settings of the agents.
pub(super) const AGENTS: &[Line] = &[
    (Rw, "~/.codex"),
    (Rw, "~/.claude"),
    (Rw, "~/.claude.json"),
    (Rw, "~/.pi"),
    (Rw, "~/.gemini"),
    (Rw, "~/.config/opencode"),
    (Rw, "~/.local/share/opencode"),
    (Rw, "~/.local/state/opencode"),
    (Rw, "~/.local/state/claude"),
];

/// How something begins that an agent makes in a home directory where it has never run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// As an empty directory.
    Dir,
    /// As a file with this content.
    File(&'static str),
}

/// By the agent's command: writable lines of the presets without which it does not start, or
/// forgets what it was told.
const BEGINNINGS: &[(&str, &str, Beginning)] = &[
    ("claude", "~/.claude", Beginning::Dir),
    ("claude", "~/.claude.json", Beginning::File("{}\n")),
    ("codex", "~/.codex", Beginning::Dir),
    ("gemini", "~/.gemini", Beginning::Dir),
    ("opencode", "~/.cache", Beginning::Dir),
    ("opencode", "~/.config/opencode", Beginning::Dir),
    ("opencode", "~/.local/share/opencode", Beginning::Dir),
    ("opencode", "~/.local/state/opencode", Beginning::Dir),
    ("pi", "~/.pi", Beginning::Dir),
];

/// What an agent makes in a home directory where it has never run, by the rules that allow it.
pub fn beginnings(command: &OsStr) -> impl Iterator<Item = (&'static str, Beginning)> {
    let of_command = BEGINNINGS.iter().filter(move |(name, ..)| command == *name);
    of_command.map(|(_, pattern, beginning)| (*pattern, *beginning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::caches::CACHES;

    #[test]
    fn every_beginning_is_a_writable_line_of_a_preset() {
        for (command, pattern, _) in BEGINNINGS {
            assert!(AGENTS.iter().chain(CACHES).any(|line| *line == (Rw, *pattern)), "{command}");
        }
    }
}
