//! Host commands on a machine that has them: tests that need root. Attack ids are those of docs/concepts/attacks.md.
#![allow(clippy::unwrap_used, reason = "helpers of tests stand outside of test functions")]

#[path = "../bridge/sshd.rs"]
#[allow(dead_code, reason = "the suite of other users needs the rest")]
mod sshd;
mod machine;
