//! Configuration files of agent-sandbox that appeared during a run.

use std::path::{Path, PathBuf};

use sandbox_git::tracked::is_tracked;
use sandbox_linux::tree::{self, Instant, Kind};

use super::Scan;
use crate::inspect::report::Why;

/// Reason for listing a file that stays.
pub(super) const TRACKED: &str = "git tracks it, and the sandbox reads it when started there";

/// Larger files are not configurations.
const MAX_BYTES: u64 = 256 << 10;

impl Scan<'_> {
    /// Moves a new configuration file aside, unless git tracks it. One that existed at the start was read-only, and was
    /// compared.
    pub(super) fn judge_policy(&mut self, path: PathBuf, ctime: Instant) {
        let kept = self.record.kept.iter().any(|kept| kept.path.0 == path);
        let is_new = self.record.policies_complete || ctime >= self.since;
        if !kept && is_new && !git_content(&path) {
            return self.aside(&path, Why::PlantedConfig);
        }
        if !kept && is_new {
            self.report.later(path.clone(), TRACKED);
        }
        self.policies.insert(path);
    }
}

/// Returns true when git tracks a configuration file with its present content. Links are not followed: their target can
/// change without git.
pub(super) fn git_content(path: &Path) -> bool {
    let Ok((dir, name)) = tree::parent(path) else { return false };
    let is_file = dir.stat(name).is_ok_and(|stat| stat.kind == Kind::File);
    is_file && dir.read(name, MAX_BYTES).is_ok_and(|content| is_tracked(path, &content))
}
