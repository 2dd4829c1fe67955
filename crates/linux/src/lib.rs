//! Safe functions over the Linux system calls that agent-sandbox needs.
//!
//! Every function here takes and returns plain values; what it means for a sandbox is decided in
//! `sandbox-core`. This is the only crate with `unsafe`.
#![allow(unsafe_code, reason = "the one crate that may: each block names its invariant")]

#[cfg(not(target_os = "linux"))]
compile_error!("agent-sandbox runs on Linux only: its walls are Linux namespaces");

pub mod memory;
pub mod process;
pub mod signal;
pub mod fd;
pub mod file;
pub mod tree;
pub mod walk;
pub mod clock;
pub mod channel;
pub mod inotify;
pub mod namespace;
pub mod mount;
pub mod root;
pub mod landlock;
pub mod seccomp;

/// Whether an error number says that the kernel, or whoever set it up, does not offer something.
pub fn is_unsupported(errno: i32) -> bool {
    matches!(
        errno,
        libc::EPERM
            | libc::EACCES
            | libc::ENOSYS
            | libc::EINVAL
            | libc::EOPNOTSUPP
            | libc::ENODEV
            | libc::ENOSPC
            | libc::EUSERS
    )
}
