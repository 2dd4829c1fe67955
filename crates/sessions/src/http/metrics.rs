//! Metrics of the server.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sandbox_proxy::prometheus::Exposition;
use sandbox_proxy::prometheus::Kind::{Counter, Gauge};

/// Counters.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    answers: Mutex<BTreeMap<u16, u64>>,
    pub(super) execs: AtomicU64,
    pub(super) running: AtomicU64,
}

impl Metrics {
    /// Counts a response.
    pub(super) fn answered(&self, status: u16) {
        let mut answers = self.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *answers.entry(status).or_default() += 1;
    }

    /// Formats the metrics for Prometheus.
    pub(super) fn text(&self, sessions: &[(&str, usize)]) -> String {
        let mut text = Exposition::new("agent_sandbox");
        let answers = self.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut family = text.family(Counter, "requests_total", None);
        for (status, count) in answers.iter() {
            family.sample(&[("status", status)], count);
        }
        let mut family = text.family(Gauge, "sessions", None);
        for (state, count) in sessions {
            family.sample(&[("state", state)], count);
        }
        let (execs, running) = (&self.execs, &self.running);
        for (kind, name, value) in
            [(Counter, "execs_total", execs), (Gauge, "execs_running", running)]
        {
            text.family(kind, name, None).sample(&[], value.load(Ordering::Relaxed));
        }
        text.into_text()
    }
}
