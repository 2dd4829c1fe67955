//! Backends: a [`Plan`](crate::plan::Plan) made true.
//!
//! One plan, two renderings. `bwrap` writes it as plain bubblewrap arguments: complete, and what
//! `--dry-run` shows. `own` makes the mounts itself, in namespaces of its own, and leaves the rest
//! to bubblewrap: faster, and able to hide what does not exist yet. `docker` is the same policy as a
//! container.

pub mod bwrap;
pub mod own;
pub mod docker;
pub mod find;
