//! Tests of the binary as PID 1 of real namespaces, as any user.
#![allow(clippy::unwrap_used, reason = "a panic is how a test says that something is wrong")]

mod room;
mod entrypoint;
mod init;
