//! Landlock scopes, which keep abstract sockets and signals inside the sandbox: landlock(7).

use std::io;

use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope};

/// Denies this process and its children abstract sockets of, and signals to, processes outside.
/// Returns false if the kernel does not support it (Landlock ABI 6, Linux 6.12).
///
/// Uses scopes only, because a ruleset with a file system right would forbid the mounts that follow.
pub fn scope() -> io::Result<bool> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::AbstractUnixSocket | Scope::Signal)
        .and_then(landlock::Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(io::Error::other)?;
    Ok(status.ruleset == RulesetStatus::FullyEnforced)
}

/// Returns the Landlock ABI of this kernel, or 0 without Landlock.
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
