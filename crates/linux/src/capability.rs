//! Capabilities: dropping them and limiting the bounding set, capabilities(7).

use std::io;

pub use rustix::thread::CapabilitySet;
use rustix::thread::CapabilitySets;

/// Drops every capability of this process except `kept`.
pub fn reduce(kept: CapabilitySet) -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let now = rustix::thread::capabilities(None)?;
    let sets = CapabilitySets {
        effective: now.effective & kept,
        permitted: now.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Removes every capability except `kept` from the bounding set, including capabilities newer than this program.
pub fn bound(kept: CapabilitySet) -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(capability) {
            continue;
        }
        // The number is above the kernel's last capability: PR_CAPBSET_READ(2const).
        let Ok(present) = rustix::thread::capability_is_in_bounding_set(capability) else { break };
        if present {
            rustix::thread::remove_capability_from_bounding_set(capability)?;
        }
    }
    Ok(())
}
