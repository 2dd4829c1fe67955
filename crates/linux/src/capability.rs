//! Giving capabilities up.

use std::io;

pub use rustix::thread::CapabilitySet;
use rustix::thread::CapabilitySets;

/// Gives up every capability but these of what this process has.
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

/// Takes every capability but these out of what any later program could get, those too that are newer than this program.
pub fn bound(kept: CapabilitySet) -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(capability) {
            continue;
        }
        // The kernel knows no more.
        let Ok(there) = rustix::thread::capability_is_in_bounding_set(capability) else { break };
        if there {
            rustix::thread::remove_capability_from_bounding_set(capability)?;
        }
    }
    Ok(())
}
