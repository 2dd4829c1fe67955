//! The Landlock scope: abstract sockets and signals end at the sandbox.

use std::io;

use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope};

/// Cuts this process and its children off from abstract sockets and processes outside.
/// Returns whether the kernel can do it (Landlock ABI 6, Linux 6.12).
///
/// Scopes only: a ruleset with any file system right would forbid the mounts that follow.
pub fn scope() -> io::Result<bool> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::AbstractUnixSocket | Scope::Signal)
        .and_then(landlock::Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(io::Error::other)?;
    Ok(status.ruleset == RulesetStatus::FullyEnforced)
}

/// The Landlock ABI of this kernel; 0 when there is none.
pub fn abi() -> i64 {
    const CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no structure and only returns a number.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0,
            CREATE_RULESET_VERSION,
        )
    };
    abi.max(0)
}
