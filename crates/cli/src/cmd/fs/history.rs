//! `fs history`: what callers of the filesystem have logged.

use std::path::Path;

use crate::args::Flags;
use crate::args::fs::History;
use crate::failed::Outcome;
use sandbox_layers::folder;
use sandbox_linux::escape::joined;

use crate::ui::{Stdio, Tone};

/// Prints the last calls, oldest first.
pub(crate) fn run(flags: &Flags, history: &History, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let calls = folder::open(&history.target.target, here)?.calls(history.limit)?;
    if flags.json {
        super::super::json(&calls, io);
        return Ok(0);
    }
    let rows: Vec<[String; 5]> = calls
        .iter()
        .map(|call| {
            let took = call.duration_ms.map_or_else(|| "-".into(), |ms| format!("{ms} ms"));
            let what = call.error.as_ref().or(call.parameters.as_ref());
            let what = what.map(|text| one_line(text)).unwrap_or_default();
            [time(call.started_at), one_line(&call.name), one_line(&call.status), took, what]
        })
        .collect();
    let text = super::super::columns(&rows, |column, text, row| match (column, row[2].as_str()) {
        (2, "success") => io.tone(Tone::Good, text),
        (2, "error") => io.tone(Tone::Bad, text),
        (0 | 3, _) => io.tone(Tone::Quiet, text),
        _ => text.to_owned(),
    });
    io.data(&text);
    if rows.is_empty() {
        io.say("no tool was called");
    }
    Ok(0)
}

fn one_line(text: &str) -> String {
    joined(text).chars().take(200).collect()
}

/// Seconds since the epoch as date and time, in UTC.
pub(crate) fn time(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// The date of a day since the epoch, by the calendar that repeats every 400 years.
fn date(days: i64) -> (i64, i64, i64) {
    // A year that begins in March has its leap day at the end.
    let shifted = days.saturating_add(719_468);
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_are_dates_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_783_000_000, "2026-07-02 13:46:40"),
            (-1, "1969-12-31 23:59:59"),
        ] {
            assert_eq!(time(seconds), text);
        }
        time(i64::MAX);
        time(i64::MIN);
    }
}
