//! Who we are.

/// The real user id.
pub fn uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The real group id.
pub fn gid() -> u32 {
    rustix::process::getgid().as_raw()
}
