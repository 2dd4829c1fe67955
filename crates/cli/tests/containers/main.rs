//! Tests in real containers, on a Docker daemon that `./dev test` starts for them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod harness;
mod images;
mod build;
mod entrypoint;
mod init;
mod arm64;
mod check;
mod sessions;
mod transcripts;
