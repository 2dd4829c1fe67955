//! Numbers for whoever watches.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was done so far.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    answers: Mutex<BTreeMap<u16, u64>>,
    pub(super) execs: AtomicU64,
    pub(super) running: AtomicU64,
}

impl Metrics {
    /// A call was answered with this status.
    pub(super) fn answered(&self, status: u16) {
        let mut answers = self.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *answers.entry(status).or_default() += 1;
    }

    /// In the format of Prometheus.
    pub(super) fn text(&self, sessions: &[(&str, usize)]) -> String {
        let mut text = String::from("# TYPE agent_sandbox_requests_total counter\n");
        let answers = self.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Writing to a string never fails.
        for (status, count) in answers.iter() {
            let _ = writeln!(text, "agent_sandbox_requests_total{{status=\"{status}\"}} {count}");
        }
        text.push_str("# TYPE agent_sandbox_sessions gauge\n");
        for (state, count) in sessions {
            let _ = writeln!(text, "agent_sandbox_sessions{{state=\"{state}\"}} {count}");
        }
        let execs = self.execs.load(Ordering::Relaxed);
        let running = self.running.load(Ordering::Relaxed);
        let _ = writeln!(
            text,
            "# TYPE agent_sandbox_execs_total counter\nagent_sandbox_execs_total {execs}\n\
             # TYPE agent_sandbox_execs_running gauge\nagent_sandbox_execs_running {running}"
        );
        text
    }
}
