//! Notes for the user before the command runs, one line each.

use std::path::Path;

use crate::inspect::Known;
use crate::specificity::Decisions;
use sandbox_git::protect::GitProtection;
use sandbox_policy::config::{Access, Config, Layer, Origin};
use sandbox_policy::network::EgressPolicy;
use sandbox_policy::path::Matched;
use sandbox_policy::preset::Presets;

/// Returns notes about repositories that are less writable, or less protected, than a user would expect.
pub(super) fn about_repositories(git: &GitProtection, known: &Known) -> Vec<String> {
    let refused = git.refused.iter().map(|refused| {
        let (entry, git_dir) = (refused.entry.display(), refused.git_dir.display());
        format!("`{entry}` points to `{git_dir}`, which stays read-only: {}", refused.why)
    });
    // An earlier scan that was complete knows the repositories that this search did not reach.
    let early = (git.stopped_early && !known.complete).then(|| {
        "too many files to find every nested repository; some git hooks are not read-only during this run, only scanned after it".to_owned()
    });
    refused.chain(early).collect()
}

/// Returns a note if the working directory is read-only and the user did not ask for that.
pub(super) fn read_only_cwd(
    presets: &Presets,
    cwd: &Path,
    decisions: &Decisions,
) -> Option<String> {
    let here = cwd.display();
    if cwd == Path::new("/") && decisions.at(cwd).is_none() {
        return Some(format!(
            "the working directory `{here}` is read-only; to make the whole machine writable: `--rw /`"
        ));
    }
    let rule = &decisions.at(cwd).filter(|_| presets.has("@base"))?.rule;
    let by_preset = matches!(rule.origin, Origin::Preset(_)) && rule.access == Access::Ro;
    by_preset.then(|| {
        format!(
            "the working directory `{here}` is read-only ({}); to make it writable: `--ro '!{}'`",
            rule.origin, rule.pattern
        )
    })
}

/// Returns a note for each flag that has no effect because a stricter rule beats it.
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
            "{} has no effect: {} `{}` from {} is stricter; remove that rule with `{back}`",
            flag.origin,
            winner.access.word(),
            winner.pattern,
            winner.origin
        ))
    };
    decisions.iter().filter_map(lost).collect()
}

/// Returns a note if the list of allowed hosts is empty. It is applied, but seldom intended.
pub(super) fn nothing_allowed(egress: Option<&EgressPolicy>) -> Option<String> {
    egress.filter(|egress| egress.allowed.is_empty()).map(|_| {
        "all hosts are blocked: `allowed_hosts` is empty; add one with `--allow-host NAME`"
            .to_owned()
    })
}

pub(super) fn skipped_keys(config: &Config) -> impl Iterator<Item = String> {
    config.skipped.iter().map(|key| {
        format!(
            "`{}` ({}) applies to sessions only; it has no effect on a single command",
            key.value, key.origin
        )
    })
}
