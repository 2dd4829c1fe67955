//! Git on the host, in a repository that the agent can write: rules for the command line, and settings that
//! override those of the repository.
//!
//! The subcommand comes first, and options that name programs or output files are refused. Settings that a
//! repository could contain are overridden with fixed values. Filters, drivers and helpers have no fixed names,
//! so they cannot be overridden: [`refused_setting`] finds them, and a repository that has one is refused.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use crate::command::is_builtin;
use crate::protect::{config, danger};

/// Long options of any subcommand that run programs, read settings or write files. git accepts any unambiguous
/// abbreviation.
const LONG: &[&str] = &[
    "upload-pack",
    "receive-pack",
    "exec",
    "open-files-in-pager",
    "output",
    "output-directory",
    "ext-diff",
    "textconv",
    "extcmd",
    "tool",
    "config",
    "template",
    "separate-git-dir",
    "gpg-sign",
    "exec-path",
    "git-dir",
    "work-tree",
    "index-output",
    "edit",
    "edit-description",
    "edit-todo",
    "interactive",
    "remote",
    "reference",
    "strategy",
    "filter",
    "shallow-file",
    "server-option",
    "no-index",
    "pathspec-from-file",
    "contents",
    "ignore-revs-file",
    "exclude-from",
    "to-stdout",
    "show-signature",
    "verify-signatures",
    "recurse-submodules",
    "recursive",
    "submodule",
    "ignore-submodules",
    "rebase",
];

/// Harmless options whose names abbreviate one of `LONG`.
const HARMLESS: &[&str] = &["text", "remotes", "no-index-filter"];

/// Short options of each subcommand that run programs, read settings or write files.
const SHORT: &[(&str, &[u8])] = &[
    ("grep", b"Of"),
    ("clone", b"uco"),
    ("archive", b"o"),
    ("format-patch", b"o"),
    ("commit", b"SecCFt"),
    ("ls-files", b"X"),
    ("add", b"eip"),
    ("merge", b"sSFe"),
    ("pull", b"rsS"),
    ("tag", b"sueF"),
    ("blame", b"S"),
    ("diff", b"O"),
    ("log", b"O"),
    ("show", b"O"),
];

/// Subcommands that never run on behalf of an agent, because they run other programs, serve a remote, or
/// prompt. `rebase` runs a list of commands that is in the repository while it works.
const NEVER: &[&str] = &[
    "bisect",
    "bugreport",
    "config",
    "credential",
    "difftool",
    "filter-branch",
    "hook",
    "mergetool",
    "rebase",
    "receive-pack",
    "remote-ext",
    "remote-fd",
    "send-pack",
    "submodule--helper",
    "upload-archive",
    "upload-pack",
    "fetch-pack",
    "var",
    "fast-import",
    "init",
    "init-db",
    "interpret-trailers",
    "help",
    "merge-index",
    "checkout--worker",
    "daemon",
];

/// Subcommands that show diffs, and would run programs that the repository configures.
const SHOWS: &[&str] =
    &["diff", "log", "show", "diff-tree", "diff-index", "diff-files", "format-patch"];

/// Subcommands that compare the work tree, and so run git in each submodule.
const COMPARES: &[&str] = &[
    "add",
    "am",
    "apply",
    "checkout",
    "checkout-index",
    "cherry-pick",
    "commit",
    "describe",
    "merge",
    "mv",
    "pull",
    "read-tree",
    "reset",
    "restore",
    "revert",
    "rm",
    "stage",
    "stash",
    "switch",
    "update-index",
    "worktree",
];

/// Settings that override those of the repository.
const SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("sequence.editor", "false"),
    ("core.askPass", "false"),
    ("core.sshCommand", "ssh -o BatchMode=yes"),
    ("core.alternateRefsCommand", "true"),
    ("core.attributesFile", "/dev/null"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("protocol.https.allow", "always"),
    ("protocol.ssh.allow", "always"),
    // A push would run hooks of the target repository, and a fetch could read any repository of the user.
    ("protocol.file.allow", "never"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("log.showSignature", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("interactive.diffFilter", "cat"),
    ("diff.ignoreSubmodules", "all"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("safe.bareRepository", "explicit"),
    // The repository is on the host's list, and its settings were checked.
    ("safe.directory", "*"),
];

/// Returns the variables of a hardened git. The settings of the user and of the machine are not read.
pub fn environment() -> Vec<(String, String)> {
    let fixed = [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_PAGER", "cat"),
        ("GIT_EDITOR", "false"),
        ("GIT_ASKPASS", "false"),
        ("SSH_ASKPASS", "false"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_OPTIONAL_LOCKS", "0"),
    ];
    let mut env: Vec<(String, String)> =
        fixed.map(|(name, value)| (name.into(), value.into())).to_vec();
    env.push(("GIT_CONFIG_COUNT".into(), SETTINGS.len().to_string()));
    for (number, (key, value)) in SETTINGS.iter().enumerate() {
        env.push((format!("GIT_CONFIG_KEY_{number}"), (*key).into()));
        env.push((format!("GIT_CONFIG_VALUE_{number}"), (*value).into()));
    }
    env
}

/// Returns the first refused word after `git`, and why. `named` is true if the host's list names the subcommand.
pub fn refusal(args: &[OsString], named: bool) -> Option<(OsString, &'static str)> {
    let Some(sub) = args.first() else { return Some(("git".into(), "a subcommand is required")) };
    if sub.as_bytes().starts_with(b"-") {
        return (sub != "--version")
            .then(|| (sub.clone(), "options before the subcommand are not allowed"));
    }
    let name = sub.to_string_lossy();
    if !is_builtin(&name) && name != "submodule" {
        return Some((
            sub.clone(),
            "it is not a built-in git command, so it could be an alias for anything",
        ));
    }
    if NEVER.contains(&&*name) || (!named && name == "submodule") {
        return Some((sub.clone(), "this subcommand runs other programs or serves a remote"));
    }
    let letters =
        SHORT.iter().find(|(sub, _)| *sub == name).map_or(&b""[..], |(_, letters)| letters);
    // Also after `--`, which can be the value of an option: `git grep -e -- -Oid`.
    let mut bad = args[1..].iter().filter(|word| is_denied(word, letters));
    bad.next().map(|word| (word.clone(), "this option can run programs or access files"))
}

fn is_denied(word: &OsStr, letters: &[u8]) -> bool {
    match word.as_bytes() {
        [b'-', b'-'] => false,
        [b'-', b'-', long @ ..] => {
            let name = long.split(|byte| *byte == b'=').next().unwrap_or_default();
            let harmless = HARMLESS.iter().any(|known| known.as_bytes() == name);
            !harmless && LONG.iter().any(|known| known.as_bytes().starts_with(name))
        }
        [b'-', bundle @ ..] => bundle.iter().any(|letter| letters.contains(letter)),
        _ => false,
    }
}

/// Returns the words to insert after the subcommand. They override every setting, even those of a submodule.
pub fn extra(sub: &OsStr) -> &'static [&'static str] {
    match sub.to_str() {
        Some("status") => &["--ignore-submodules=dirty"],
        Some("fetch" | "push") => &["--no-recurse-submodules"],
        Some("pull") => &["--no-recurse-submodules", "--no-rebase"],
        Some(sub) if SHOWS.contains(&sub) => {
            &["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"]
        }
        _ => &[],
    }
}

/// Returns true for a subcommand that enters submodules with any options. The settings of submodules are not checked.
pub fn compares(sub: &OsStr) -> bool {
    COMPARES.iter().any(|name| sub == *name)
}

/// Files of a git directory that point outside the repository.
pub const LEADS_OUT: [&str; 3] =
    ["commondir", "objects/info/alternates", "objects/info/http-alternates"];
/// Configuration files of a git directory.
pub const CONFIGS: [&str; 2] = ["config", "config.worktree"];
/// Maximum size of a configuration file.
const MAX_CONFIG: u64 = 1 << 20;

/// Returns the reason if git must not read these settings. `name` is one of [`CONFIGS`].
pub fn refused_setting(settings: impl Read, name: &str) -> Option<String> {
    let mut text = Vec::new();
    let read = settings.take(MAX_CONFIG + 1).read_to_end(&mut text);
    if read.is_err() || text.len() as u64 > MAX_CONFIG {
        return Some(format!("`.git/{name}` cannot be read"));
    }
    let Ok(vars) = config::parse(&text) else {
        return Some(format!("`.git/{name}` cannot be parsed"));
    };
    if vars.iter().any(|var| var.is("core", "worktree")) {
        return Some("its setting `core.worktree` points outside the repository".into());
    }
    let found = danger::in_config(&text).ok()?;
    let first = found.first()?;
    Some(format!("its setting `{}` runs a program or reads more settings", danger::name(first)))
}
