//! Proof that a copy-on-write tree is a file system: both engines against a plain directory, under random
//! operations, real programs, crashes and full disks.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![allow(clippy::missing_panics_doc, reason = "a test fails by panicking")]

mod dice;
mod tree;
mod differential;
mod fsx;
mod posix;
mod programs;
mod crash;
mod full;
mod many;
mod power;
mod shortcuts;
