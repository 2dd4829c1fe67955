//! `usage`: what was asked of model providers, by day.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandbox_core::Host;
use sandbox_proxy::audit::{self, Entry};
use sandbox_proxy::place::Place;
use sandbox_proxy::usage::Tokens;
use serde::Serialize;

use crate::args::{Flags, proxy::Usage};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, one_line};

/// A day, and who was asked.
type Key = (String, String);

/// What was asked of one provider on one day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Sum {
    requests: u64,
    /// Those that got no whole answer.
    failed: u64,
    bytes_in: u64,
    bytes_out: u64,
    tokens: Tokens,
    /// Whether some of the tokens are a guess of ours.
    estimated: bool,
}

impl Sum {
    fn add(&mut self, entry: &Entry) {
        self.requests += 1;
        self.failed += u64::from(entry.outcome != "complete");
        self.bytes_in = self.bytes_in.saturating_add(entry.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(entry.bytes_out);
        self.tokens += entry.tokens;
        self.estimated |= entry.estimated;
    }
}

#[derive(Serialize)]
struct Row<'r> {
    day: &'r str,
    provider: &'r str,
    #[serde(flatten)]
    sum: &'r Sum,
}

/// Prints a line for each provider of each day.
pub(crate) fn run(flags: &Flags, usage: &Usage, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let sums = sums(usage, host)
        .map_err(|error| Failed::new(error, Some("is the state directory yours?".into())))?;
    if flags.json {
        let rows: Vec<_> =
            sums.iter().map(|((day, provider), sum)| Row { day, provider, sum }).collect();
        super::json(&rows, io);
        return Ok(0);
    }
    if sums.is_empty() {
        io.say(&format!("no sandbox has asked a provider in the last {} days", usage.days));
        return Ok(0);
    }
    let head = ["DAY", "PROVIDER", "REQUESTS", "FAILED", "INPUT", "OUTPUT", "CACHED"];
    let rows: Vec<_> = [head.map(str::to_owned)].into_iter().chain(sums.iter().map(row)).collect();
    let text = super::columns(&rows, |_, text, row| match row[0].as_str() {
        "DAY" => io.tone(Tone::Quiet, text),
        _ => text.to_owned(),
    });
    io.data(&text);
    if sums.values().any(|sum| sum.estimated) {
        io.say("~ the provider did not say; counted by length");
    }
    Ok(0)
}

fn sums(usage: &Usage, host: &Host) -> io::Result<BTreeMap<Key, Sum>> {
    let mut sums = BTreeMap::<Key, Sum>::new();
    let Some(place) = Place::of(host) else { return Ok(sums) };
    let span = Duration::from_secs(u64::from(usage.days) * 86_400);
    let since = SystemTime::now().checked_sub(span).unwrap_or(UNIX_EPOCH);
    audit::read(&place.audit(), since, |entry| {
        if usage.sandbox.is_none() || usage.sandbox == entry.sandbox {
            let day = entry.time.get(..10).unwrap_or_default().to_owned();
            sums.entry((day, entry.provider.clone())).or_default().add(&entry);
        }
    })?;
    Ok(sums)
}

fn row(((day, provider), sum): (&Key, &Sum)) -> [String; 7] {
    let mark = if sum.estimated { "~" } else { "" };
    let Tokens { input, output, cached } = sum.tokens;
    [
        one_line(day),
        one_line(provider),
        sum.requests.to_string(),
        sum.failed.to_string(),
        format!("{mark}{input}"),
        format!("{mark}{output}"),
        cached.to_string(),
    ]
}
