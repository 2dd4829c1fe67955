//! `@caches`: package caches are writable, the programs in them are not.

use super::Line;
use crate::config::Access::{Ro, Rw};

/// Caches, and the files in them that the host would run later.
pub(super) const CACHES: &[Line] = &[
    (Rw, "~/.cache"),
    (Rw, "~/.bun"),
    (Rw, "~/go"),
    (Rw, "~/.npm"),
    (Rw, "~/.cargo"),
    // On the `$PATH` of most users.
    (Ro, "~/.cargo/bin"),
    (Ro, "~/go/bin"),
    (Ro, "~/.bun/bin"),
    // Sourced by login shells.
    (Ro, "~/.cargo/env"),
    (Ro, "~/.cargo/env.fish"),
    (Ro, "~/.cargo/env.nu"),
    (Ro, "~/.cargo/env.tcsh"),
    (Ro, "~/.cargo/env.xsh"),
    // Can configure a compiler wrapper, linker or runner for the next build on the host.
    (Ro, "~/.cargo/config"),
    (Ro, "~/.cargo/config.toml"),
    (Ro, "~/.bun/_bun"),
    (Ro, "~/.bun/install/global"),
];
