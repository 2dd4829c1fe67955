//! The real binary, a real bubblewrap, a real kernel: one module for each topic.

mod probe;
mod cli;
mod config;
mod trust;
mod filesystem;
mod commands;
mod git;
mod network;
mod egress;
mod secrets;
mod signals;
mod nested;
mod why;
mod escapes;
mod doctor;
mod init;
mod fs;
mod cow;
mod sessions;
mod changes;
mod release;
mod attacks;
