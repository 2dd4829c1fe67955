//! Host commands: the real binary on both sides, real sshd, real git. Attack ids are those of docs/concepts/attacks.md.
#![allow(clippy::unwrap_used, reason = "helpers of tests stand outside of test functions")]

mod stage;
mod shim;
mod limits;
mod attacks;
mod repository;
mod sshd;
mod ssh;
mod routed;
