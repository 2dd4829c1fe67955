//! What the user should know before the command runs, a line each.

use std::path::Path;

use crate::inspect::Known;
use crate::specificity::Decisions;
use sandbox_git::protect::GitProtection;
use sandbox_policy::config::{Access, Config, Layer, Origin};
use sandbox_policy::network::EgressPolicy;
use sandbox_policy::path::Matched;
use sandbox_policy::preset::Presets;

/// Repositories that are not what a user would expect.
pub(super) fn about_repositories(git: &GitProtection, known: &Known) -> Vec<String> {
    let refused = git.refused.iter().map(|refused| {
        let (entry, git_dir) = (refused.entry.display(), refused.git_dir.display());
        format!("`{entry}` points to `{git_dir}`, which stays read-only: {}", refused.why)
    });
    // What an earlier run found to the end need not be searched to the end again.
    let early = (git.stopped_early && !known.complete).then(|| {
        "the search for nested repositories stopped early: those it did not reach are looked at when the run ends, but have no read-only hooks meanwhile".to_owned()
    });
    refused.chain(early).collect()
}

/// A working directory that cannot be written is worth a line, unless the user asked for it.
pub(super) fn read_only_cwd(
    presets: &Presets,
    cwd: &Path,
    decisions: &Decisions,
) -> Option<String> {
    let here = cwd.display();
    if cwd == Path::new("/") && decisions.at(cwd).is_none() {
        return Some(format!(
            "the working directory is `{here}` and stays read-only; `--rw /` makes the whole machine writable"
        ));
    }
    let rule = &decisions.at(cwd).filter(|_| presets.has("@base"))?.rule;
    let by_preset = matches!(rule.origin, Origin::Preset(_)) && rule.access == Access::Ro;
    by_preset.then(|| {
        format!(
            "the working directory `{here}` is read-only ({}); `--ro '!{}'` opens it",
            rule.origin, rule.pattern
        )
    })
}

/// A flag that changes nothing because a stricter rule holds is worth a line.
pub(super) fn lost_flags(decisions: &Decisions) -> Vec<String> {
    let lost = |decision: &crate::specificity::Decision| {
        let winner = &decision.rule;
        let flag = decision.beaten.iter().find(|rule| {
            rule.origin.layer() == Layer::Flags
                && rule.access < winner.access
                && rule.matched == Matched::Exact
        })?;
        let back = format!("--{} '!{}'", winner.access.word(), winner.pattern);
        Some(format!(
            "{} has no effect: {} `{}` from {} is stricter; `{back}` takes it back",
            flag.origin,
            winner.access.word(),
            winner.pattern,
            winner.origin
        ))
    };
    decisions.iter().filter_map(lost).collect()
}

/// A list that allows nothing is obeyed, and seldom what was meant.
pub(super) fn nothing_allowed(egress: Option<&EgressPolicy>) -> Option<String> {
    egress.filter(|egress| egress.allowed.is_empty()).map(|_| {
        "no host can be reached: `allowed_hosts` is empty; `--allow-host NAME` adds one".to_owned()
    })
}

pub(super) fn skipped_keys(config: &Config) -> impl Iterator<Item = String> {
    config.skipped.iter().map(|key| {
        format!(
            "`{}` ({}) is for sessions and has no effect on a single command",
            key.value, key.origin
        )
    })
}
