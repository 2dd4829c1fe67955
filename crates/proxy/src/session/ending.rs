//! When a session ends: by the clock that nobody can set. The wall clock counts once, when the session is
//! registered, and again after a boot, which starts the other one anew.

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use sandbox_linux::clock::now;

/// The moment, in seconds since a boot of the machine, and which boot that is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ending {
    boot: String,
    since_boot: u64,
}

impl Ending {
    /// Of limits that begin to hold now. `known` is what was worked out before, if it was.
    pub(super) fn of(limits: &Limits, known: Option<Self>) -> Option<Self> {
        let (boot, since_boot) = (boot(), since_boot());
        limits.expires_at.map(|end| match known {
            Some(known) if known.boot == boot => known,
            _ => Self { boot, since_boot: since_boot.saturating_add(end.saturating_sub(now())) },
        })
    }

    /// Whether it has come.
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
    fn an_ending_is_worked_out_once_in_a_boot() {
        assert_eq!(Ending::of(&Limits::default(), None), None);
        let first = Ending::of(&until(now() + 100), None).unwrap();
        assert!(!first.is_over() && Ending::of(&until(1), None).unwrap().is_over());
        // The wall clock says something else meanwhile: that changes nothing.
        assert_eq!(Ending::of(&until(now() + 9000), Some(first.clone())).unwrap(), first);
        let before = Ending { boot: "another".into(), since_boot: u64::MAX };
        assert!(Ending::of(&until(now()), Some(before)).unwrap().is_over());
    }
}
