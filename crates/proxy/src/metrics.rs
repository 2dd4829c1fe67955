//! Counters of the whole proxy, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::usage::Tokens;

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Connections that were opened to servers.
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

    /// How many requests have ended.
    pub(crate) fn ended(&self) -> u64 {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.values().map(|sums| sums.requests).sum()
    }

    /// All of them as text.
    pub(crate) fn text(&self, sessions: usize) -> String {
        let mut text = String::new();
        gauge(&mut text, "sessions", "Sessions that are registered", sessions);
        gauge(
            &mut text,
            "active_requests",
            "Requests under way",
            self.active.load(Ordering::Relaxed),
        );
        family(&mut text, "upstream_connections_total", "Connections opened to servers");
        let _ = writeln!(
            text,
            "{NAME}_upstream_connections_total {}",
            self.connections.load(Ordering::Relaxed)
        );
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        family(&mut text, "requests_total", "Requests that ended, by status");
        for ((provider, status), sums) in &ended {
            let _ = writeln!(
                text,
                "{NAME}_requests_total{{provider=\"{provider}\",status=\"{status}\"}} {}",
                sums.requests
            );
        }
        let mut by_provider: BTreeMap<&str, Sums> = BTreeMap::new();
        for ((provider, _), sums) in &ended {
            let all = by_provider.entry(provider).or_default();
            all.bytes_in = all.bytes_in.saturating_add(sums.bytes_in);
            all.bytes_out = all.bytes_out.saturating_add(sums.bytes_out);
            all.tokens += sums.tokens;
        }
        for (name, help, counts) in FAMILIES {
            family(&mut text, name, help);
            for (label, value) in *counts {
                for (provider, sums) in &by_provider {
                    let _ = writeln!(
                        text,
                        "{NAME}_{name}{{provider=\"{provider}\",{label}}} {}",
                        value(sums)
                    );
                }
            }
        }
        text
    }
}

/// A label, and the number that it stands for.
type Count = (&'static str, fn(&Sums) -> u64);

/// Sums of each provider: the name, what it means, and its numbers.
const FAMILIES: &[(&str, &str, &[Count])] = &[
    (
        "bytes_total",
        "Bytes of bodies",
        &[("direction=\"in\"", |sums| sums.bytes_in), ("direction=\"out\"", |sums| sums.bytes_out)],
    ),
    (
        "tokens_total",
        "Tokens that answers reported",
        &[
            ("kind=\"input\"", |sums| sums.tokens.input),
            ("kind=\"output\"", |sums| sums.tokens.output),
            ("kind=\"cached\"", |sums| sums.tokens.cached),
        ],
    ),
];

const NAME: &str = "agent_sandbox_proxy";

fn family(text: &mut String, name: &str, help: &str) {
    let _ = writeln!(text, "# HELP {NAME}_{name} {help}.\n# TYPE {NAME}_{name} counter");
}

fn gauge(text: &mut String, name: &str, help: &str, value: impl std::fmt::Display) {
    let _ = writeln!(
        text,
        "# HELP {NAME}_{name} {help}.\n# TYPE {NAME}_{name} gauge\n{NAME}_{name} {value}"
    );
}
