//! Clocks behind file timestamps, and dates as text.

use rustix::fs::{MemfdFlags, Mode, fchmod, fstat, memfd_create};
use rustix::time::{ClockId, clock_gettime};

/// Returns the coarse wall clock, which the kernel uses for file timestamps, as seconds and nanoseconds:
/// `clock_gettime(2)`.
pub fn wall() -> (i64, u32) {
    read(ClockId::RealtimeCoarse)
}

/// Returns the precise wall clock. Linux 6.13 and later use it for some file timestamps, so these can be
/// ahead of [`wall`]: multigrain-ts.rst.
pub fn wall_exactly() -> (i64, u32) {
    read(ClockId::Realtime)
}

/// Reads [`wall_exactly`] and [`since_boot`] at the same moment.
///
/// Preemption between the two reads would make the clocks disagree, so a slow pair is read again.
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

/// Returns the monotonic clock in nanoseconds, for [`wait_for_timestamps`].
pub fn monotonic() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Waits until file timestamps are later than a moment of [`monotonic`]. Files that change afterwards have a later
/// timestamp than every file that changed before the moment.
///
/// Since Linux 6.13 this takes microseconds. Earlier kernels advance the clock for file timestamps with each tick, at most
/// 10 ms apart, and later if the hypervisor deschedules the processor.
pub fn wait_for_timestamps(moment: u64) {
    for _ in 0..50_000 {
        if nanoseconds(ClockId::MonotonicCoarse) > moment || advance_timestamps().unwrap_or(false) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

/// Makes the kernel use an exact timestamp, which no later timestamp of any file precedes. Returns false if the kernel
/// used the clock that advances with each tick.
///
/// Since Linux 6.13 a file whose timestamp was read gets an exact one at its next change:
/// <https://docs.kernel.org/filesystems/multigrain-ts.html>.
fn advance_timestamps() -> rustix::io::Result<bool> {
    // Kernels before 6.3 refuse `NOEXEC_SEAL`. Kernels with `vm.memfd_noexec=2` refuse a file without it.
    let file = memfd_create("timestamp", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)?;
    fstat(&file)?;
    fchmod(&file, Mode::RUSR)?;
    let changed = fstat(&file)?;
    Ok((changed.st_ctime, u32::try_from(changed.st_ctime_nsec).unwrap_or(0)) > wall())
}

/// Returns whole seconds since 1970.
pub fn now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs())
}

/// Returns the time since boot, including suspend. This clock cannot be set.
pub fn since_boot() -> (i64, u32) {
    read(ClockId::Boottime)
}

/// Formats a duration in its largest suitable unit.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Formats seconds since the epoch as date and time in UTC.
pub fn date_time(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Converts days since the epoch to a Gregorian date. The calendar repeats every 400 years.
fn date(days: i64) -> (i64, i64, i64) {
    // Counting years from March puts the leap day at the end of a year.
    let shifted = days.saturating_add(719_468);
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, date)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let (seconds, nanoseconds) = read(clock);
    u64::try_from(seconds).unwrap_or(0) * 1_000_000_000 + u64::from(nanoseconds)
}

fn read(clock: ClockId) -> (i64, u32) {
    let now = clock_gettime(clock);
    (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn files_that_change_after_the_wait_are_later_than_files_that_changed_before() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let [before, after] =
                ["before", "after"].map(|name| dir.path().join(format!("{name}{round}")));
            std::fs::write(&before, "").unwrap();
            let (moment, start) = (monotonic(), wall_exactly());
            wait_for_timestamps(moment);
            std::fs::write(&after, "").unwrap();
            let changed = |path| {
                let meta = std::fs::metadata(path).unwrap();
                (meta.ctime(), u32::try_from(meta.ctime_nsec()).unwrap())
            };
            assert!(changed(&before) < start && start < changed(&after), "{round}");
        }
    }

    #[test]
    fn date_time_formats_calendar_dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_783_000_000, "2026-07-02 13:46:40"),
            (-1, "1969-12-31 23:59:59"),
        ] {
            assert_eq!(date_time(seconds), text);
        }
        date_time(i64::MAX);
        date_time(i64::MIN);
    }
}
