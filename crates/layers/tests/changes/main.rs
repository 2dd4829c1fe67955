//! Changes of a layer on real files: listed, applied, reverted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod world;
mod diff;
mod patch;
mod apply;
mod random;
