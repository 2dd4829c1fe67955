//! `@agents`: what coding agents must be able to write to start at all.

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
