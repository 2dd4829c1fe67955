//! Output of `--debug`: the steps of each decision.

use sandbox_core::describe::trace::trace;
use sandbox_core::plan::Plan;
use sandbox_policy::Host;

use crate::ui::{Stdio, Tone, visible};

/// Prints one line.
pub(crate) fn line(step: &str, text: &str, io: &mut Stdio<'_>) {
    let label = io.err_tone(Tone::Quiet, &format!("debug: {step}:"));
    io.say(&format!("{label} {}", visible(text)));
}

/// Prints the steps that led to a plan.
pub(crate) fn plan(plan: &Plan, host: &Host, io: &mut Stdio<'_>) {
    for step in trace(plan, host) {
        line(step.name, &step.text, io);
    }
}
