//! Tests of the binary as PID 1 of real namespaces that need root: ids, ownership, giving root up.
#![allow(clippy::unwrap_used, reason = "a panic is how a test says that something is wrong")]

#[path = "../container/room.rs"]
#[allow(dead_code, reason = "the suite of other users needs the rest")]
mod room;
mod entrypoint;
mod init;
mod sessions;
