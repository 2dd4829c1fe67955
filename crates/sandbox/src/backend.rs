//! Backends: a [`Plan`](crate::plan::Plan) made true.
//!
//! One plan, two renderings. `bwrap` writes it as plain bubblewrap arguments: complete, and what
//! `--dry-run` shows by way of `shell`. `own` makes namespaces and mounts without bubblewrap: faster,
//! and able to hide what does not exist yet.

pub mod bwrap;
pub mod shell;
pub mod own;
pub mod find;
