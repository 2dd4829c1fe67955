//! Safe functions over the Linux system calls that agent-sandbox needs.
#![allow(unsafe_code, reason = "the one crate that may: each block names its invariant")]

pub mod process;
