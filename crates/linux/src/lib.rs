//! Safe functions over the Linux system calls that agent-sandbox needs.
//!
//! Functions take and return plain values; `sandbox-core` decides how a sandbox uses them. This is the only crate with
//! `unsafe`.
#![allow(unsafe_code, reason = "the one crate that may: each block names its invariant")]

#[cfg(not(target_os = "linux"))]
compile_error!("agent-sandbox runs on Linux only: it needs Linux namespaces");

#[cfg(target_os = "linux")]
pub mod memory;
#[cfg(target_os = "linux")]
pub mod environment;
#[cfg(target_os = "linux")]
pub mod thread;
#[cfg(target_os = "linux")]
pub mod process;
#[cfg(target_os = "linux")]
pub mod signal;
#[cfg(target_os = "linux")]
pub mod fd;
#[cfg(target_os = "linux")]
pub mod file;
#[cfg(target_os = "linux")]
pub mod lock;
#[cfg(target_os = "linux")]
pub mod replace;
#[cfg(target_os = "linux")]
pub mod map;
#[cfg(target_os = "linux")]
pub mod terminal;
#[cfg(target_os = "linux")]
pub mod pty;
#[cfg(target_os = "linux")]
pub mod socket;
pub mod tree;
pub mod escape;
pub mod error;
pub mod hex;
#[cfg(feature = "serde")]
pub mod raw;
#[cfg(target_os = "linux")]
pub mod beneath;
#[cfg(target_os = "linux")]
pub mod descendants;
#[cfg(target_os = "linux")]
pub mod walk;
#[cfg(target_os = "linux")]
pub mod clock;
#[cfg(target_os = "linux")]
pub mod freeze;
#[cfg(target_os = "linux")]
pub mod channel;
#[cfg(target_os = "linux")]
pub mod holder;
#[cfg(target_os = "linux")]
pub mod inotify;
#[cfg(target_os = "linux")]
pub mod namespace;
#[cfg(target_os = "linux")]
pub mod capability;
#[cfg(target_os = "linux")]
pub mod enclosure;
#[cfg(target_os = "linux")]
pub mod mount;
#[cfg(target_os = "linux")]
pub mod root;
#[cfg(target_os = "linux")]
pub mod landlock;
#[cfg(target_os = "linux")]
pub mod seccomp;
#[cfg(target_os = "linux")]
pub mod probe;

#[cfg(target_os = "linux")]
/// Returns true for error numbers that mean that the kernel or its configuration does not support something.
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
