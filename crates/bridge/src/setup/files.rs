//! Paths and contents of the files that a set-up writes.

use std::path::{Path, PathBuf};

use sandbox_policy::config::command::line;

/// Usual path of the binary.
pub(super) const BINARY: &str = "/usr/local/bin/agent-sandbox";
/// Login shell of the dedicated user, a link to the binary.
pub(super) const SHELL: &str = "/usr/local/sbin/agent-sandbox-shell";
const WRAPPER: &str = include_str!("../../../../deploy/miclaw-cmd-wrapper");

const SSHD: &str = include_str!("../../../../deploy/sshd_config.d/60-agent-sandbox.conf");
const LIST: &str = include_str!("../../../../deploy/host-commands.toml");
/// User name in the example files, which keep the names of the sandboxing guide.
const EXAMPLE: &str = "pipo-runner";

/// Returns the script of the forced command, which starts this program.
pub(super) fn wrapper(program: &Path) -> String {
    WRAPPER.replace(BINARY, &program.display().to_string())
}

pub(super) fn home(user: &str) -> PathBuf {
    Path::new("/var/lib/agent-sandbox").join(user)
}

pub(super) fn sshd(user: &str) -> PathBuf {
    format!("/etc/ssh/sshd_config.d/60-agent-sandbox-{user}.conf").into()
}

pub(super) fn sshd_text(user: &str) -> String {
    SSHD.replace(EXAMPLE, user)
}

pub(super) fn sudoers(user: &str) -> PathBuf {
    // sudo ignores files with a dot in their name: sudoers(5).
    format!("/etc/sudoers.d/agent-sandbox-{user}").into()
}

pub(super) fn sudoers_text(user: &str, programs: &[PathBuf]) -> String {
    let line = |program: &PathBuf| format!("{user} ALL=(root) NOPASSWD: {}\n", program.display());
    programs.iter().map(line).collect()
}

/// Returns the example list with these commands. The other lines of the example explain its keys.
pub(super) fn list(allowed: &[String]) -> String {
    let entries: Vec<String> = allowed.iter().map(|entry| format!("{entry:?}")).collect();
    let own = format!("allowed = [{}]", entries.join(", "));
    let line = |line| if str::starts_with(line, "allowed = ") { own.as_str() } else { line };
    LIST.lines().flat_map(|text| [line(text), "\n"]).collect()
}

/// Returns true if sudo and a shell take a path literally.
pub(super) fn is_plain_path(path: &Path) -> bool {
    let quoted = line::quote([path]).unwrap_or_default();
    path.is_absolute() && path.to_str() == Some(&quoted) && !quoted.contains([',', ':', '='])
}
