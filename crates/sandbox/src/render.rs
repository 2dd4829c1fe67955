//! A [`Plan`](crate::plan::Plan) rendered as the mounts that carry it out.
//!
//! One plan, two renderings. `bwrap` writes it as plain bubblewrap arguments: complete, and what
//! `--dry-run` shows by way of `shell`. `own` writes it as steps for namespaces and mounts of our own: faster,
//! and able to hide what does not exist yet. `find` looks for the bubblewrap program.

pub mod bwrap;
pub mod shell;
pub mod own;
pub mod find;
