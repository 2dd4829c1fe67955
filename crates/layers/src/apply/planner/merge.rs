//! Files that the host and the session changed.

use std::io::Read;

use super::Planner;
use crate::apply::ApplyError;
use crate::apply::expected::Expected;
use crate::apply::merge::{Clash, merge};
use crate::apply::plan::Made;
use crate::diff::{Change, Content, Digest, MAX_TEXT, Side, View};

/// Host text that was merged.
struct OnHost {
    text: Vec<u8>,
    executable: bool,
}

impl Planner<'_> {
    /// Plans a change of a path that the host changed too, as a merge or a conflict.
    pub(super) fn merge(&mut self, change: &Change) -> Result<(), ApplyError> {
        let (Some(Side::File { executable: was, .. }), Some(Side::File { executable, .. })) =
            (&change.before, &change.after)
        else {
            self.conflict(change, "also changed on the host");
            return Ok(());
        };
        let Some((merged, host)) = self.three_way(change)? else { return Ok(()) };
        let executable = self.wish.chosen.get(&change.path).map_or(*executable, |it| it.executable);
        // The side that changed the bit determines it.
        let executable = if *was == executable { host.executable } else { executable };
        let goal = self.made(change, merged, executable);
        let left = self.left(change, "merged with changes on the host");
        self.plan.notes.push(left);
        self.push(change, Some(goal), Expected::Content(Digest::of(&host.text)))
    }

    /// Returns the merged text, and the host's text that it includes.
    fn three_way(&mut self, change: &Change) -> Result<Option<(Made, OnHost)>, ApplyError> {
        let Some(ancestor) = self.target.record.ancestor(&change.path)? else {
            self.conflict(change, "also changed on the host, and its original version is unknown");
            return Ok(None);
        };
        let view =
            View { layer: self.target.layer, host: self.target.host, record: self.target.record };
        let layer = match self.wish.chosen.get(&change.path) {
            Some(chosen) => Some(Content::of(chosen.bytes.clone())),
            None => view.after(change, MAX_TEXT)?,
        };
        let host = self.host_text(change)?;
        let (Some(Content::Text(layer)), Some((Content::Text(host), executable))) = (layer, host)
        else {
            self.conflict(change, "also changed on the host, and not a text that can be merged");
            return Ok(None);
        };
        match merge(&ancestor, &host, &layer) {
            Ok(bytes) => {
                let host = OnHost { text: host, executable };
                Ok(Some((Made { bytes, ancestor: layer }, host)))
            }
            Err(clashes) => {
                self.conflict(change, clash_text(&clashes));
                Ok(None)
            }
        }
    }

    fn host_text(&self, change: &Change) -> Result<Option<(Content, bool)>, ApplyError> {
        let Ok((file, found)) = self.target.host.open_file(&change.path) else { return Ok(None) };
        if found.stamp.size > MAX_TEXT {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(MAX_TEXT + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| ApplyError::at(&change.path, error))?;
        Ok(Some((Content::of(bytes), found.is_executable())))
    }
}

fn clash_text(clashes: &[Clash]) -> String {
    let lines: Vec<_> = clashes.iter().take(5).map(|clash| clash.line.to_string()).collect();
    let more = if clashes.len() > 5 { " and more" } else { "" };
    format!("the same lines changed on the host, around line {}{more}", lines.join(", "))
}
