//! `@base`: the working directory is writable, home is readable, the classic key stores are gone.

use super::Line;
use crate::config::Access::{Exclude, Ro, Rw};

/// The working directory and the home directory themselves.
pub(super) const BASE: &[Line] = &[
    (Rw, "."),
    (Ro, "~"),
    (Exclude, "~/.ssh"),
    (Exclude, "~/.gnupg"),
    (Exclude, "~/.aws"),
    // What NixOS keeps in `/run`, which is otherwise new and empty.
    (Ro, "/run/current-system"),
    (Ro, "/run/booted-system"),
    (Ro, "/run/opengl-driver"),
    (Ro, "/run/wrappers"),
];
