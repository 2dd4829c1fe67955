//! Printer for the events of a run.

pub(crate) mod debug;
pub(crate) mod report;
#[cfg(feature = "layers")]
pub(crate) mod summary;

use sandbox_core::inspect::Report;
use sandbox_core::plan::Plan;
use sandbox_core::run::Ended;
#[cfg(feature = "layers")]
use sandbox_launch::events::Closed;
use sandbox_launch::events::Events;
use sandbox_policy::Host;
use sandbox_policy::network::blocked::Blocked;
use sandbox_protocol::Hint;

#[cfg(feature = "layers")]
use sandbox_linux::escape::{name, visible};

use crate::ui::{Stdio, Tone, indented, one_line};

/// Prints events on stderr.
pub(crate) struct Printer<'p, 's> {
    /// Output.
    pub(crate) io: &'p mut Stdio<'s>,
    /// `--debug`.
    pub(crate) debug: bool,
}

impl Events for Printer<'_, '_> {
    fn note(&mut self, text: &str) {
        self.io.note(&one_line(text));
    }

    fn debug(&mut self, step: &str, text: &str) {
        if self.debug {
            debug::line(step, text, self.io);
        }
    }

    fn recovered(&mut self, report: &Report) {
        report::print(report, "earlier run, which was killed: ", self.io);
    }

    fn planned(&mut self, plan: &Plan, host: &Host) {
        for note in &plan.notes {
            self.note(note);
        }
        if self.debug {
            debug::plan(plan, host, self.io);
        }
    }

    fn ended(&mut self, ended: &Ended) {
        self.debug("process", &format!("ended with {} ({:?})", ended.code, ended.rendering));
        if let Some(why) = &ended.why {
            self.io.labelled(Tone::Bad, "error", &indented(why));
        }
    }

    fn refused(&mut self, blocked: &[Blocked]) {
        let hosts = hosts(blocked);
        self.note(&format!("refused: {hosts}; `agent-sandbox blocked` explains why"));
    }

    fn proxy_lost(&mut self, why: &str) {
        self.note(&format!("the proxy was lost, and later requests failed: {why}"));
    }

    fn scanned(&mut self, report: &Report) {
        report::print(report, "", self.io);
    }

    #[cfg(feature = "layers")]
    fn closed(&mut self, closed: &Closed<'_>) {
        for holder in closed.cut_off {
            let text = format!(
                "{holder} still had the session's files open in another mount namespace; its access was cut off"
            );
            self.io.note(&visible(&text));
        }
        let Some(session) = closed.session else { return self.io.say("no changes") };
        if let Some(first) = closed.also_changed.first() {
            let more = match closed.also_changed.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            self.io
                .note(&format!("{}{more} changed on the host while the command ran", name(first)));
        }
        summary::print(closed.summary, session, closed.shifted, self.io);
    }

    fn failed(&mut self, error: &dyn Hint) {
        self.io.error(error, error.hint());
    }
}

/// Lists the first few hosts, and how many more there are.
fn hosts(blocked: &[Blocked]) -> String {
    const SHOWN: usize = 3;
    let mut names: Vec<&str> =
        blocked.iter().map(|blocked| blocked.refusal.host.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let rest = names.len().saturating_sub(SHOWN);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    names.truncate(SHOWN);
    format!("{}{more}", names.join(", "))
}
