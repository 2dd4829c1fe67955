//! `@caches`: package caches are writable, the programs that lie in them are not.

use super::Line;
use crate::config::Access::{Ro, Rw};

/// Caches, and what in them a shell or `$PATH` of the host would run later.
pub(super) const CACHES: &[Line] = &[
    (Rw, "~/.cache"),
    (Rw, "~/.bun"),
    (Rw, "~/go"),
    (Rw, "~/.npm"),
    (Rw, "~/.cargo"),
    // On `$PATH` of most users.
    (Ro, "~/.cargo/bin"),
    (Ro, "~/go/bin"),
    (Ro, "~/.bun/bin"),
    // Sourced by login shells.
    (Ro, "~/.cargo/env"),
    (Ro, "~/.cargo/env.fish"),
    (Ro, "~/.cargo/env.nu"),
    (Ro, "~/.cargo/env.tcsh"),
    (Ro, "~/.cargo/env.xsh"),
    // Can name a compiler wrapper, a linker or a runner that the next build on the host starts.
    (Ro, "~/.cargo/config"),
    (Ro, "~/.cargo/config.toml"),
    (Ro, "~/.bun/_bun"),
    (Ro, "~/.bun/install/global"),
];
