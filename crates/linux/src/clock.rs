//! Clocks that the kernel stamps files with.

use rustix::time::{ClockId, clock_gettime};

/// Wall clock, as files are stamped with: seconds and nanoseconds.
pub fn wall() -> (i64, u32) {
    read(ClockId::RealtimeCoarse)
}

/// Wall clock, exactly. Newer kernels stamp some files with it, ahead of [`wall`].
pub fn wall_exactly() -> (i64, u32) {
    read(ClockId::Realtime)
}

/// Reads [`wall_exactly`] and [`since_boot`] at the same moment.
///
/// A process that is preempted between two readings would see clocks that disagree, so a slow pair is read again.
pub fn wall_and_boot() -> ((i64, u32), (i64, u32)) {
    let mut pair = (wall_exactly(), since_boot());
    for _ in 0..16 {
        let before = since_boot();
        pair = (wall_exactly(), since_boot());
        if pair.1.0 == before.0 && pair.1.1 - before.1 < 1_000_000 {
            break;
        }
    }
    pair
}

/// Returns whole seconds since 1970, as records and reports give them.
pub fn now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs())
}

/// Time since boot, sleep included. It cannot be set.
pub fn since_boot() -> (i64, u32) {
    read(ClockId::Boottime)
}

fn read(clock: ClockId) -> (i64, u32) {
    let now = clock_gettime(clock);
    (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0))
}
