//! Tests of the binary as PID 1 of real namespaces, as any user.
#![allow(clippy::unwrap_used, reason = "a panic is how a test says that something is wrong")]

#[allow(dead_code, reason = "the suite of root needs the rest")]
mod room;
mod entrypoint;
mod init;
