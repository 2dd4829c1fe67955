//! Polling for a condition.

use std::time::{Duration, Instant};

/// Time limit. It is long because machines may be loaded.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until `look` returns a value.
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
