//! Option grammars of the git commands that rules parse, as data.

use super::options::Grammar;

#[rustfmt::skip]
pub(super) const RESET: Grammar = &[
    "q/quiet", "/no-refresh", "/mixed", "/soft", "/hard", "/merge", "/keep", "/recurse-submodules?",
    "p/patch", "N/intent-to-add", "/pathspec-from-file=", "/pathspec-file-nul", "z/", "U/unified=",
    "/inter-hunk-context=", "/auto-advance",
];

#[rustfmt::skip]
pub(super) const APPLY: Grammar = &[
    "/exclude=", "/include=", "p/=", "/no-add", "/stat", "/allow-binary-replacement", "/binary",
    "/numstat", "/summary", "/check", "/index", "N/intent-to-add", "/cached", "/unsafe-paths",
    "/apply", "3/3way", "/ours", "/theirs", "/union", "/build-fake-ancestor=", "z/", "C/=",
    "/whitespace=", "/ignore-space-change", "/ignore-whitespace", "R/reverse", "/unidiff-zero",
    "/reject", "/allow-overlap", "v/verbose", "q/quiet", "/inaccurate-eof", "/recount",
    "/directory=", "/allow-empty",
];

#[rustfmt::skip]
pub(super) const CHECKOUT: Grammar = &[
    "b/=", "B/=", "l/", "/guess", "/overlay", "q/quiet", "/recurse-submodules?", "/progress",
    "m/merge", "/conflict=", "d/detach", "t/track?", "f/force", "/orphan=", "/overwrite-ignore",
    "/ignore-other-worktrees", "2/ours", "3/theirs", "p/patch", "/ignore-skip-worktree-bits",
    "/pathspec-from-file=", "/pathspec-file-nul", "U/unified=", "/inter-hunk-context=",
];

/// `revert` has fewer options.
#[rustfmt::skip]
pub(super) const CHERRY_PICK: Grammar = &[
    "/quit", "/continue", "/abort", "/skip", "/cleanup=", "n/no-commit", "e/edit", "r/",
    "s/signoff", "m/mainline=", "/rerere-autoupdate", "/strategy=", "X/strategy-option=",
    "S/gpg-sign?", "x/", "/ff", "/allow-empty", "/allow-empty-message", "/empty=",
    "/keep-redundant-commits", "/reference",
];

#[rustfmt::skip]
pub(super) const RESTORE: Grammar = &[
    "s/source=", "S/staged", "W/worktree", "/ignore-unmerged", "/overlay", "q/quiet",
    "/recurse-submodules?", "/progress", "m/merge", "/conflict=", "2/ours", "3/theirs", "p/patch",
    "/ignore-skip-worktree-bits", "/pathspec-from-file=", "/pathspec-file-nul", "U/unified=",
    "/inter-hunk-context=",
];

/// `mv` has fewer options.
#[rustfmt::skip]
pub(super) const RM: Grammar = &[
    "n/dry-run", "q/quiet", "/cached", "f/force", "r/", "/ignore-unmatch", "/sparse", "k/",
    "v/verbose", "/pathspec-from-file=", "/pathspec-file-nul",
];

#[rustfmt::skip]
pub(super) const STASH_PUSH: Grammar = &[
    "k/keep-index", "S/staged", "p/patch", "q/quiet", "u/include-untracked", "a/all", "m/message=",
    "/pathspec-from-file=", "/pathspec-file-nul", "/index", "U/unified=", "/inter-hunk-context=",
];

#[rustfmt::skip]
pub(super) const CLEAN: Grammar =
    &["q/quiet", "n/dry-run", "f/force", "i/interactive", "d/", "e/exclude=", "x/", "X/"];

#[rustfmt::skip]
pub(super) const COMMIT: Grammar = &[
    "q/quiet", "v/verbose", "F/file=", "/author=", "/date=", "m/message=", "c/reedit-message=",
    "C/reuse-message=", "/fixup=", "/squash=", "/reset-author", "/trailer=", "s/signoff",
    "t/template=", "e/edit", "/cleanup=", "/status", "S/gpg-sign?", "a/all", "i/include",
    "/interactive", "p/patch", "U/unified=", "/inter-hunk-context=", "o/only", "n/no-verify",
    "/dry-run", "/short", "/branch", "/ahead-behind", "/porcelain", "/long", "z/null", "/amend",
    "/no-post-rewrite", "u/untracked-files?", "/pathspec-from-file=", "/pathspec-file-nul",
    "/allow-empty", "/allow-empty-message",
];

#[rustfmt::skip]
pub(super) const PUSH: Grammar = &[
    "v/verbose", "q/quiet", "/repo=", "/all", "/branches", "/mirror", "d/delete", "/tags",
    "n/dry-run", "/porcelain", "f/force", "/force-with-lease?", "/force-if-includes",
    "/recurse-submodules=", "/thin", "/receive-pack=", "/exec=", "u/set-upstream", "/progress",
    "/prune", "/no-verify", "/follow-tags", "/signed?", "/atomic", "o/push-option=", "4/ipv4",
    "6/ipv6",
];

#[rustfmt::skip]
pub(super) const SEND_PACK: Grammar = &[
    "v/verbose", "q/quiet", "/receive-pack=", "/exec=", "/remote=", "/all", "n/dry-run", "/mirror",
    "f/force", "/signed?", "/push-option=", "/progress", "/thin", "/atomic", "/stateless-rpc",
    "/stdin", "/helper-status", "/force-with-lease?", "/force-if-includes",
];

#[rustfmt::skip]
pub(super) const BRANCH: Grammar = &[
    "v/verbose", "q/quiet", "t/track?", "u/set-upstream-to=", "/unset-upstream", "/color?",
    "r/remotes", "/contains=", "/no-contains=", "/with=", "/without=", "/abbrev?", "a/all",
    "d/delete", "D/", "m/move", "M/", "/omit-empty", "c/copy", "C/", "l/list", "/show-current",
    "/create-reflog", "/edit-description", "f/force", "/merged=", "/no-merged=", "/column?",
    "/sort=", "/points-at=", "i/ignore-case", "/recurse-submodules", "/format=",
];

#[rustfmt::skip]
pub(super) const SWITCH: Grammar = &[
    "c/create=", "C/force-create=", "/guess", "/discard-changes", "q/quiet",
    "/recurse-submodules?", "/progress", "m/merge", "/conflict=", "d/detach", "t/track?",
    "f/force", "/orphan=", "/overwrite-ignore", "/ignore-other-worktrees",
];

#[rustfmt::skip]
pub(super) const MERGE: Grammar = &[
    "n/", "/stat", "/summary", "/compact-summary", "/log?", "/squash", "/commit", "e/edit",
    "/cleanup=", "/ff", "/ff-only", "/rerere-autoupdate", "/verify-signatures", "s/strategy=",
    "X/strategy-option=", "m/message=", "F/file=", "/into-name=", "v/verbose", "q/quiet", "/abort",
    "/quit", "/continue", "/allow-unrelated-histories", "/progress", "S/gpg-sign?", "/autostash",
    "/overwrite-ignore", "/signoff", "/no-verify",
];

#[rustfmt::skip]
pub(super) const REBASE: Grammar = &[
    "/onto=", "/keep-base", "/no-verify", "q/quiet", "v/verbose", "n/no-stat", "/signoff",
    "/committer-date-is-author-date", "/reset-author-date", "/ignore-date", "C/=",
    "/ignore-whitespace", "/whitespace=", "f/force-rebase", "/no-ff", "/continue", "/skip",
    "/abort", "/quit", "/edit-todo", "/show-current-patch", "/apply", "m/merge", "i/interactive",
    "/rerere-autoupdate", "/empty=", "/autosquash", "/update-refs", "S/gpg-sign?", "/autostash",
    "x/exec=", "r/rebase-merges?", "/fork-point", "s/strategy=", "X/strategy-option=", "/root",
    "/reschedule-failed-exec", "/reapply-cherry-picks", "k/keep-empty", "/preserve-merges",
    "/trailer=",
];

#[rustfmt::skip]
pub(super) const AM: Grammar = &[
    "i/interactive", "n/no-verify", "b/binary", "3/3way", "q/quiet", "s/signoff", "u/utf8",
    "k/keep", "/keep-non-patch", "m/message-id", "/keep-cr", "/no-keep-cr", "c/scissors",
    "/quoted-cr=", "/whitespace=", "/ignore-space-change", "/ignore-whitespace", "/directory=",
    "/exclude=", "/include=", "C/=", "p/=", "/patch-format=", "/reject", "/resolvemsg=",
    "/continue", "r/resolved", "/skip", "/abort", "/quit", "/show-current-patch?", "/retry",
    "/allow-empty", "/committer-date-is-author-date", "/ignore-date", "/rerere-autoupdate",
    "S/gpg-sign?", "/empty=",
];

#[rustfmt::skip]
pub(super) const PULL: Grammar = &[
    "v/verbose", "q/quiet", "/progress", "/recurse-submodules?", "r/rebase?", "n/", "/stat",
    "/summary", "/compact-summary", "/log?", "/signoff?", "/squash", "/commit", "/edit",
    "/cleanup=", "/ff", "/ff-only", "/verify", "/verify-signatures", "/autostash", "s/strategy=",
    "X/strategy-option=", "S/gpg-sign?", "/allow-unrelated-histories", "/all", "a/append",
    "/upload-pack=", "f/force", "t/tags", "p/prune", "j/jobs?", "/dry-run", "k/keep", "/depth=",
    "/shallow-since=", "/shallow-exclude=", "/deepen=", "/unshallow", "/update-shallow",
    "/refmap=", "o/server-option=", "4/ipv4", "6/ipv6", "/negotiation-tip=",
    "/show-forced-updates", "/set-upstream",
];

#[rustfmt::skip]
pub(super) const READ_TREE: Grammar = &[
    "/index-output=", "/empty", "v/verbose", "m/", "/trivial", "/aggressive", "/reset", "/prefix=",
    "u/", "/exclude-per-directory=", "i/", "n/dry-run", "/no-sparse-checkout", "/debug-unpack",
    "/recurse-submodules?", "q/quiet",
];

#[rustfmt::skip]
pub(super) const CHECKOUT_INDEX: Grammar = &[
    "a/all", "/ignore-skip-worktree-bits", "f/force", "q/quiet", "n/no-create", "u/index", "z/",
    "/stdin", "/temp", "/prefix=", "/stage=",
];

#[rustfmt::skip]
pub(super) const GC: Grammar = &[
    "q/quiet", "/prune?", "/cruft", "/max-cruft-size=", "/expire-to=", "/aggressive", "/auto",
    "/detach", "/force", "/keep-largest-pack",
];

#[rustfmt::skip]
pub(super) const PRUNE: Grammar =
    &["n/dry-run", "v/verbose", "/progress", "/expire=", "/exclude-promisor-objects"];

#[rustfmt::skip]
pub(super) const UPDATE_REF: Grammar =
    &["m/=", "d/", "/no-deref", "z/", "/stdin", "/create-reflog", "0/", "/batch-updates"];

#[rustfmt::skip]
pub(super) const REFLOG_EXPIRE: Grammar = &[
    "n/dry-run", "/rewrite", "/updateref", "/expire=", "/expire-unreachable=", "/stale-fix",
    "/all", "/single-worktree", "/verbose",
];

#[rustfmt::skip]
pub(super) const WORKTREE: Grammar = &[
    "f/force", "b/=", "B/=", "/orphan", "d/detach", "/checkout", "/lock", "/reason=", "q/quiet",
    "/track", "/guess-remote", "/relative-paths", "v/verbose", "/expire=", "n/dry-run",
    "/porcelain", "z/",
];

#[rustfmt::skip]
pub(super) const SUBMODULE: Grammar = &[
    "f/force", "q/quiet", "/init", "/checkout", "/merge", "/rebase", "/remote", "/recursive",
    "N/no-fetch", "/reference=", "/depth=", "j/jobs=", "/filter=", "/single-branch", "/progress",
    "/recommend-shallow", "/require-init", "/all", "/dissociate", "b/branch=", "/name=",
];

/// Built-in commands of git, whose names no alias can take.
#[rustfmt::skip]
pub(super) const BUILTINS: &[&str] = &[
    "add", "am", "annotate", "apply", "archive", "bisect", "blame", "branch", "bugreport",
    "bundle", "cat-file", "check-attr", "check-ignore", "check-mailmap", "check-ref-format",
    "checkout", "checkout--worker", "checkout-index", "cherry", "cherry-pick", "clean", "clone",
    "column", "commit", "commit-graph", "commit-tree", "config", "count-objects", "credential",
    "describe", "diff", "diff-files", "diff-index", "diff-tree", "difftool", "fast-export",
    "fast-import", "fetch", "fetch-pack", "fmt-merge-msg", "for-each-ref", "format-patch", "fsck",
    "fsck-objects", "gc", "get-tar-commit-id", "grep", "hash-object", "help", "index-pack", "init",
    "init-db", "interpret-trailers", "log", "ls-files", "ls-remote", "ls-tree", "mailinfo",
    "mailsplit", "merge", "merge-base", "merge-file", "merge-index", "merge-ours",
    "merge-recursive", "merge-subtree", "merge-tree", "mktag", "mktree", "mv", "name-rev", "notes",
    "pack-objects", "pack-refs", "patch-id", "prune", "prune-packed", "pull", "push", "range-diff",
    "read-tree", "rebase", "receive-pack", "reflog", "remote", "remote-ext", "remote-fd", "repack",
    "replace", "rerere", "reset", "restore", "rev-list", "rev-parse", "revert", "rm", "send-pack",
    "shortlog", "show", "show-branch", "show-index", "show-ref", "sparse-checkout", "stage",
    "stash", "status", "stripspace", "submodule--helper", "switch", "symbolic-ref", "tag",
    "unpack-file", "unpack-objects", "update-index", "update-ref", "update-server-info",
    "upload-archive", "upload-pack", "var", "verify-commit", "verify-pack", "verify-tag",
    "version", "worktree", "write-tree",
];

/// Commands with rules, whose copies in git's exec path (`git-checkout` and so on) are wrapped too.
#[rustfmt::skip]
pub const RULED: &[&str] = &[
    "am", "apply", "bisect", "branch", "checkout", "checkout-index", "cherry-pick", "clean",
    "commit", "gc", "merge", "mv", "prune", "pull", "push", "read-tree", "rebase", "reflog",
    "reset", "restore", "revert", "rm", "send-pack", "sparse-checkout", "stash", "switch",
    "update-ref", "worktree",
];
