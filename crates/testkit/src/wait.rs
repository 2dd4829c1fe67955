//! Waiting for something to become true.

use std::time::{Duration, Instant};

/// Longer than anything takes that works, also on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until there is something.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
