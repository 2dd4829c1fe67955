//! Clocks behind file timestamps, and dates as text.

use rustix::time::{ClockId, clock_gettime};

/// Returns the coarse wall clock, which the kernel uses for file timestamps, as seconds and nanoseconds.
pub fn wall() -> (i64, u32) {
    read(ClockId::RealtimeCoarse)
}

/// Returns the precise wall clock. Newer kernels use it for some file timestamps, so these can be ahead of [`wall`].
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

/// Returns the monotonic clock in nanoseconds, for [`wait_for_tick`].
pub fn monotonic() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Waits until the clock for file timestamps has passed a moment of [`monotonic`]. Files that change afterwards have a
/// later timestamp than every file that changed before the moment.
///
/// The clock advances with each tick, at most 10 ms apart, and later if the hypervisor deschedules the processor.
pub fn wait_for_tick(moment: u64) {
    for _ in 0..50_000 {
        if nanoseconds(ClockId::MonotonicCoarse) > moment {
            return;
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
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
    use super::date_time;

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
