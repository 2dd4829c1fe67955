//! Prometheus counters of the proxy.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::prometheus::Exposition;
use crate::prometheus::Kind::{Counter, Gauge};
use crate::usage::Tokens;

/// Counters and gauges.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Connections opened to servers.
    pub connections: Arc<AtomicUsize>,
    active: AtomicI64,
    ended: Mutex<BTreeMap<(&'static str, u16), Sums>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Sums {
    requests: u64,
    bytes_in: u64,
    bytes_out: u64,
    tokens: Tokens,
}

impl Metrics {
    pub(crate) fn begin(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(
        &self,
        provider: &'static str,
        status: u16,
        bytes_in: u64,
        bytes_out: u64,
        tokens: Tokens,
    ) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let sums = ended.entry((provider, status)).or_default();
        sums.requests += 1;
        sums.bytes_in = sums.bytes_in.saturating_add(bytes_in);
        sums.bytes_out = sums.bytes_out.saturating_add(bytes_out);
        sums.tokens += tokens;
    }

    /// Returns the number of finished requests.
    pub(crate) fn ended(&self) -> u64 {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.values().map(|sums| sums.requests).sum()
    }

    /// Returns all metrics as text.
    pub(crate) fn text(&self, sessions: usize) -> String {
        let mut text = Exposition::new(PREFIX);
        let active = self.active.load(Ordering::Relaxed);
        let connections = self.connections.load(Ordering::Relaxed);
        for (kind, name, help, value) in [
            (Gauge, "sessions", "Registered sessions", &sessions as &dyn Display),
            (Gauge, "active_requests", "Requests in progress", &active),
            (Counter, "upstream_connections_total", "Connections opened to servers", &connections),
        ] {
            text.family(kind, name, Some(help)).sample(&[], value);
        }
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let help = Some("Finished requests, by status");
        let mut family = text.family(Counter, "requests_total", help);
        for ((provider, status), sums) in &ended {
            family.sample(&[("provider", provider), ("status", status)], sums.requests);
        }
        let by_provider = by_provider(&ended);
        for (name, help, label, counts) in FAMILIES {
            let mut family = text.family(Counter, name, Some(help));
            for (kind, count) in *counts {
                for (provider, sums) in &by_provider {
                    family.sample(&[("provider", provider), (label, kind)], count(sums));
                }
            }
        }
        text.into_text()
    }
}

fn by_provider(ended: &BTreeMap<(&'static str, u16), Sums>) -> BTreeMap<&'static str, Sums> {
    let mut by_provider: BTreeMap<&str, Sums> = BTreeMap::new();
    for ((provider, _), sums) in ended {
        let all = by_provider.entry(provider).or_default();
        all.bytes_in = all.bytes_in.saturating_add(sums.bytes_in);
        all.bytes_out = all.bytes_out.saturating_add(sums.bytes_out);
        all.tokens += sums.tokens;
    }
    by_provider
}

/// Value of a label, and the number that it selects.
type Count = (&'static str, fn(&Sums) -> u64);

/// Metrics by provider: name, help, label name, and values.
const FAMILIES: &[(&str, &str, &str, &[Count])] = &[
    (
        "bytes_total",
        "Bytes in request and response bodies",
        "direction",
        &[("in", |sums| sums.bytes_in), ("out", |sums| sums.bytes_out)],
    ),
    (
        "tokens_total",
        "Tokens used, as responses report them",
        "kind",
        &[
            ("input", |sums| sums.tokens.input),
            ("output", |sums| sums.tokens.output),
            ("cached", |sums| sums.tokens.cached),
        ],
    ),
];

const PREFIX: &str = "agent_sandbox_proxy";
