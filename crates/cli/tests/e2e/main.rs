//! The real binary, a real bubblewrap, a real kernel: one module for each topic.

mod cli;
mod doctor;
mod init;
