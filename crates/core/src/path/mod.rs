//! Paths: what a rule's text means on this machine.
//!
//! `pattern` turns text into a [`Pattern`](pattern::Pattern), `resolve` turns patterns into real
//! paths, with every symlink on the way known.

pub mod pattern;
pub mod resolve;

pub use resolve::{Kind, Matched, Resolved};
