//! The real binary, from outside.

mod config;
mod why;
