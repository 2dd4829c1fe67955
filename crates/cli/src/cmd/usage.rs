//! `usage`: shows requests and tokens of model providers, by day.

use std::collections::BTreeMap;

use sandbox_policy::Host;
use sandbox_proxy::daily::{self, Key, Sum};
use sandbox_proxy::dirs::ProxyDirs;
use sandbox_proxy::usage::Tokens;
use serde::Serialize;

use crate::args::{Flags, proxy::Usage};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, one_line};

#[derive(Serialize)]
struct Row<'r> {
    day: &'r str,
    provider: &'r str,
    #[serde(flatten)]
    sum: &'r Sum,
}

/// Prints a row for each provider and day.
pub(crate) fn run(flags: &Flags, usage: &Usage, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let sums = ProxyDirs::of(host)
        .map_or_else(
            || Ok(BTreeMap::new()),
            |dirs| daily::sums(&dirs, usage.days, usage.sandbox.as_deref()),
        )
        .map_err(|error| {
            Failed::new(error, Some("check the owner of the state directory".into()))
        })?;
    if flags.json {
        let rows: Vec<_> =
            sums.iter().map(|((day, provider), sum)| Row { day, provider, sum }).collect();
        super::json(&rows, io);
        return Ok(0);
    }
    if sums.is_empty() {
        io.say(&format!("no requests to a provider in the last {} days", usage.days));
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
        io.say("~ estimated from the length, because the provider sent no count");
    }
    Ok(0)
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
