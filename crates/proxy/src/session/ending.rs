//! Expiry of sessions. It is measured with the boot clock, which cannot be set. The wall clock is read only when a
//! session is registered, and again after a reboot.

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use sandbox_linux::clock::now;

/// Expiry time in seconds since a boot, and the ID of that boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ending {
    boot: String,
    since_boot: u64,
}

impl Ending {
    /// Returns the expiry for limits that take effect now. `known` is the earlier result, if any.
    pub(super) fn of(limits: &Limits, known: Option<Self>) -> Option<Self> {
        let (boot, since_boot) = (boot(), since_boot());
        limits.expires_at.map(|end| match known {
            Some(known) if known.boot == boot => known,
            _ => Self { boot, since_boot: since_boot.saturating_add(end.saturating_sub(now())) },
        })
    }

    /// Returns true when the time has come.
    pub(super) fn is_over(&self) -> bool {
        self.since_boot <= since_boot()
    }
}

fn since_boot() -> u64 {
    u64::try_from(sandbox_linux::clock::since_boot().0).unwrap_or(0)
}

fn boot() -> String {
    let id = sandbox_linux::file::kernel_text("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(end: u64) -> Limits {
        Limits { expires_at: Some(end), ..Limits::default() }
    }

    #[test]
    fn ending_is_fixed_for_one_boot() {
        assert_eq!(Ending::of(&Limits::default(), None), None);
        let first = Ending::of(&until(now() + 100), None).unwrap();
        assert!(!first.is_over() && Ending::of(&until(1), None).unwrap().is_over());
        // A step of the wall clock has no effect.
        assert_eq!(Ending::of(&until(now() + 9000), Some(first.clone())).unwrap(), first);
        let before = Ending { boot: "another".into(), since_boot: u64::MAX };
        assert!(Ending::of(&until(now()), Some(before)).unwrap().is_over());
    }
}
