//! Git settings that make git run a program or read more settings.

use super::config::{self, ConfigError, Var};

/// Section and key, with any subsection. `*` matches every key.
const RUNS: [(&str, &str); 57] = [
    ("alias", "*"),
    ("annex", "*"),
    ("browser", "cmd"),
    ("browser", "path"),
    ("core", "alternaterefscommand"),
    ("core", "askpass"),
    ("core", "attributesfile"),
    ("core", "editor"),
    ("core", "fsmonitor"),
    ("core", "gitproxy"),
    ("core", "hookspath"),
    ("core", "pager"),
    ("core", "sshcommand"),
    ("credential", "helper"),
    ("diff", "command"),
    ("diff", "external"),
    ("diff", "textconv"),
    ("difftool", "cmd"),
    ("difftool", "path"),
    ("filter", "clean"),
    ("filter", "process"),
    ("filter", "smudge"),
    ("gc", "recentobjectshook"),
    ("gpg", "defaultkeycommand"),
    ("gpg", "program"),
    ("guitool", "cmd"),
    ("hook", "*"),
    ("http", "proxy"),
    ("imap", "tunnel"),
    ("include", "path"),
    ("includeif", "path"),
    ("init", "templatedir"),
    ("instaweb", "*"),
    ("interactive", "difffilter"),
    ("lfs", "clean"),
    ("lfs", "path"),
    ("lfs", "smudge"),
    ("man", "cmd"),
    ("man", "path"),
    ("merge", "driver"),
    ("mergetool", "cmd"),
    ("mergetool", "path"),
    ("pager", "*"),
    ("protocol", "allow"),
    ("remote", "proxy"),
    ("remote", "receivepack"),
    ("remote", "uploadpack"),
    ("remote", "url"),
    ("remote", "pushurl"),
    ("remote", "vcs"),
    ("sendemail", "smtpserver"),
    ("sequence", "editor"),
    ("submodule", "update"),
    ("submodule", "url"),
    ("trailer", "command"),
    ("url", "insteadof"),
    ("url", "pushinsteadof"),
];

/// Suffixes of keys that name programs, in any section, because git keeps adding new ones.
const ENDINGS: [&str; 12] = [
    "askpass",
    "browser",
    "cmd",
    "command",
    "driver",
    "editor",
    "helper",
    "hook",
    "hookspath",
    "pager",
    "program",
    "textconv",
];

/// Values that `git lfs install` writes. Git finds the program on the host's PATH.
const LFS: [&str; 4] = [
    "git-lfs clean -- %f",
    "git-lfs smudge -- %f",
    "git-lfs smudge --skip -- %f",
    "git-lfs filter-process",
];

/// Returns the settings of a file that run programs.
pub fn in_config(text: &[u8]) -> Result<Vec<Var>, ConfigError> {
    Ok(config::parse(text)?.into_iter().filter(runs_code).collect())
}

/// Returns the name of a setting, for a report.
pub fn name(var: &Var) -> String {
    match &var.subsection {
        Some(sub) => format!("{}.{}.{}", var.section, String::from_utf8_lossy(sub), var.key),
        None => format!("{}.{}", var.section, var.key),
    }
}

/// Returns true when git, reading this, runs a program or reads more settings.
fn runs_code(var: &Var) -> bool {
    let listed =
        |&(section, key): &(&str, &str)| var.section == section && (key == "*" || var.key == key);
    if !RUNS.iter().any(listed) && !ENDINGS.iter().any(|ending| var.key.ends_with(ending)) {
        return false;
    }
    let value = var.value.as_deref().unwrap_or(b"true");
    match (var.section.as_str(), var.key.as_str()) {
        // A switch, not a program.
        ("core", "fsmonitor") | ("pager", _) => !is_switch(value),
        ("submodule", "update") => value.trim_ascii_start().starts_with(b"!"),
        ("protocol", "allow") => !value.eq_ignore_ascii_case(b"never"),
        // `ext::` and similar URLs pass the rest to a program.
        ("remote", "url" | "pushurl") | ("submodule", "url") => has_helper(value),
        ("url", _) => has_helper(var.subsection.as_deref().unwrap_or_default()),
        ("filter", _) => !LFS.iter().any(|known| known.as_bytes() == value),
        _ => true,
    }
}

/// Returns true when a URL names a transport program: `NAME::REST`.
fn has_helper(url: &[u8]) -> bool {
    let name = url.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    url[name.count()..].starts_with(b"::")
}

fn is_switch(value: &[u8]) -> bool {
    ["", "true", "false", "yes", "no", "on", "off", "0", "1"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_code_finds_settings_that_run_programs() {
        for (line, expected) in [
            ("[core]\nfsmonitor = ./x", true),
            ("[core]\nfsmonitor = true", false),
            ("[core]\nfsmonitor", false),
            ("[CORE]\nHooksPath = hooks", true),
            ("[core]\nrepositoryformatversion = 0\nbare = false", false),
            ("[remote \"origin\"]\nurl = https://host/x.git\nfetch = +refs/*:refs/*", false),
            ("[remote \"origin\"]\nurl = ext::sh -c x", true),
            ("[remote \"origin\"]\nurl = [::1]:path", false),
            ("[url \"ext::sh -c x \"]\ninsteadOf = https:", true),
            ("[url \"https://host/\"]\ninsteadOf = git@host:", false),
            ("[submodule \"a\"]\nurl = ../a\nupdate = rebase", false),
            ("[submodule \"a\"]\nupdate = !x", true),
            ("[filter \"lfs\"]\nclean = git-lfs clean -- %f\nrequired = true", false),
            ("[filter \"lfs\"]\nclean = x", true),
            ("[diff \"x\"]\ntextconv = x", true),
            ("[merge \"x\"]\ndriver = x", true),
            ("[credential \"https://host\"]\nhelper = x", true),
            ("[gpg \"ssh\"]\nprogram = x", true),
            ("[alias]\nst = status", true),
            ("[include]\npath = x", true),
            ("[includeIf \"gitdir:/\"]\npath = x", true),
            ("[pager]\nlog = x", true),
            ("[pager]\nlog = false", false),
            ("[protocol \"ext\"]\nallow = always", true),
            ("[uploadpack]\npackObjectsHook = x", true),
            ("[hook \"x\"]\ncommand = x", true),
            ("[branch \"main\"]\nremote = origin\nmerge = refs/heads/main", false),
            ("[user]\nname = n\nemail = e", false),
            ("[future]\nnewCommand = x", true),
        ] {
            assert_eq!(!in_config(line.as_bytes()).unwrap().is_empty(), expected, "{line}");
        }
    }
}
