//! Renderings of a [`Plan`](crate::plan::Plan).
//!
//! `bwrap` renders a plan as bubblewrap arguments, which are complete. `shell` prints them for `--dry-run`. `own`
//! renders it as steps for native namespaces and mounts, which is faster and can hide paths that do not exist yet.
//! `find` finds the bubblewrap program.

pub mod bwrap;
pub mod shell;
pub mod own;
pub mod find;
