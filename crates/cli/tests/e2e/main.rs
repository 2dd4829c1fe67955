//! The real binary, a real bubblewrap, a real kernel: one module for each topic.

mod cli;
mod config;
mod doctor;
mod init;
mod why;
