//! A container plan as the plan of a session. Its permissions beyond the minimum are notices, each with its reason.

use std::collections::BTreeMap;

use super::plan::{Container, Exception};
use crate::backend::{Form, Notice, Planned};
use crate::session::Settings;

impl Planned for Container {
    fn policy(&self) -> String {
        self.policy_hash()
    }

    fn settings(&self) -> serde_json::Result<Settings> {
        Settings::of(self, &["exceptions", "notes"])
    }

    fn keeps_changes(&self) -> bool {
        !self.layers.is_empty()
    }

    fn notices(&self) -> Vec<Notice> {
        let notes = self.notes.iter().cloned().map(Notice::Note);
        notes.chain(granted(&self.exceptions).into_iter().map(Notice::Granted)).collect()
    }

    fn show(&self, form: Form) -> serde_json::Result<String> {
        let text = match form {
            Form::Text => serde_json::to_string_pretty(self),
            Form::Json => serde_json::to_string(self),
        };
        Ok(text? + "\n")
    }
}

/// Returns one line per reason, in order.
fn granted(exceptions: &[Exception]) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    let mut what: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for exception in exceptions {
        let origin = exception.origin.as_ref().map(|origin| format!(" ({origin})"));
        let why = format!("{}{}", exception.why, origin.unwrap_or_default());
        if !what.contains_key(&why) {
            order.push(why.clone());
        }
        what.entry(why).or_default().push(&exception.what);
    }
    let line = |why: String| format!("{}: {why}", what[&why].join(", "));
    order.into_iter().map(line).collect()
}
