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

/// Returns whole seconds since 1970, as records and reports give them.
pub fn now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs())
}

/// Time since boot, sleep included; nobody can set it.
pub fn since_boot() -> (i64, u32) {
    read(ClockId::Boottime)
}

fn read(clock: ClockId) -> (i64, u32) {
    let now = clock_gettime(clock);
    (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0))
}
