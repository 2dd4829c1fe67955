//! `@base`: the working directory is writable, the home directory is readable, the classic key stores are hidden.

use super::Line;
use crate::config::Access::{Exclude, Ro, Rw};

/// Rules of `@base`.
pub(super) const BASE: &[Line] = &[
    (Rw, "."),
    (Ro, "~"),
    (Exclude, "~/.ssh"),
    (Exclude, "~/.gnupg"),
    (Exclude, "~/.aws"),
    // NixOS needs these in `/run`, which is otherwise new and empty.
    (Ro, "/run/current-system"),
    (Ro, "/run/booted-system"),
    (Ro, "/run/opengl-driver"),
    (Ro, "/run/wrappers"),
];
