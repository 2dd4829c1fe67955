//! End-to-end tests with the real binary, bubblewrap and kernel, one module per topic.
#![cfg_attr(
    not(feature = "setup"),
    allow(dead_code, unused_imports, reason = "tests that need set-up use the rest")
)]

mod probe;
mod cli;
#[cfg(feature = "docker")]
mod help;
#[cfg(feature = "docker")]
mod json;
mod config;
mod trust;
mod subdir;
mod filesystem;
mod commands;
mod git;
mod network;
#[cfg(all(feature = "proxy", feature = "setup"))]
mod egress;
#[cfg(feature = "proxy")]
mod secrets;
mod signals;
mod nested;
mod why;
mod escapes;
mod doctor;
mod init;
#[cfg(feature = "layers")]
mod fs;
#[cfg(feature = "sessions")]
mod cow;
#[cfg(feature = "sessions")]
mod sessions;
#[cfg(feature = "sessions")]
mod changes;
#[cfg(feature = "sessions")]
mod release;
mod attacks;
#[cfg(not(feature = "layers"))]
mod local;
