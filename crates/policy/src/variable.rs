//! Environment variables that a sandbox hides, by reason.

use std::ffi::OsStr;

use crate::catalog::{AGENTS, PROVIDERS, provider, secret};

/// Reason why a variable does not reach the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hidden {
    /// The variable holds a credential.
    Credential,
    /// The variable names a socket that is not available inside.
    Socket,
    /// The variable makes programs load or run other code.
    Injecting,
}

/// Returns the names that `@secrets` hides, by reason. `*` at the start or the end matches any text.
pub fn hidden_variables() -> [(Hidden, Vec<&'static str>); 3] {
    [
        (Hidden::Credential, credentials().collect()),
        (Hidden::Socket, SOCKET_VARIABLES.to_vec()),
        (Hidden::Injecting, INJECTING_VARIABLES.to_vec()),
    ]
}

fn credentials() -> impl Iterator<Item = &'static str> {
    secret::USER.iter().flat_map(|group| group.variables).copied()
}

/// Returns the names of the variables by which agents reach their models. They reach the command even if they hold a
/// credential. Names that several rows share are repeated.
pub fn provider_variables() -> impl Iterator<Item = &'static str> {
    let of_providers = PROVIDERS.iter().flat_map(|provider| provider.passed_variables);
    let of_agents = AGENTS.iter().flat_map(|agent| agent.passed_variables);
    of_providers.chain(of_agents).chain(provider::OTHER_VARIABLES).copied()
}

/// Returns true when a variable has the name of a secret.
pub fn has_secret_name(name: &str) -> bool {
    credentials().any(|pattern| matches(pattern, name))
}

/// Returns the reason why `@secrets` hides a variable, if it does.
pub fn hides_variable(name: &OsStr, value: &OsStr) -> Option<Hidden> {
    let name = name.to_str()?;
    let listed = |table: &[&str]| table.iter().any(|pattern| matches(pattern, name));
    if listed(SOCKET_VARIABLES) {
        return Some(Hidden::Socket);
    }
    if listed(INJECTING_VARIABLES) || preloads(name, value) {
        return Some(Hidden::Injecting);
    }
    let passes = || provider_variables().any(|pattern| matches(pattern, name));
    (has_secret_name(name) && !passes()).then_some(Hidden::Credential)
}

/// Returns true when `NODE_OPTIONS` loads code. Most users set memory limits with it, which is harmless.
fn preloads(name: &str, value: &OsStr) -> bool {
    let loads = ["--require", "-r", "--import", "--loader", "--experimental-loader", "--env-file"];
    name == "NODE_OPTIONS"
        && value.to_string_lossy().split_whitespace().any(|word| {
            loads.iter().any(|flag| {
                word == *flag || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
            })
        })
}

/// Returns true when a pattern matches a name. `*` at the start or the end matches any text.
fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

/// Variables that name a socket of a program on the host.
const SOCKET_VARIABLES: &[&str] = &[
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "GNOME_KEYRING_CONTROL",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "WAYLAND_DISPLAY",
    "WAYLAND_SOCKET",
    "DISPLAY",
    "XAUTHORITY",
    "ICEAUTHORITY",
    "SESSION_MANAGER",
    "SWAYSOCK",
    "I3SOCK",
    "HYPRLAND_INSTANCE_SIGNATURE",
    "NIRI_SOCKET",
    "PULSE_SERVER",
    "PIPEWIRE_REMOTE",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "ZELLIJ*",
    "KITTY_LISTEN_ON",
    "WEZTERM_UNIX_SOCKET",
    "ALACRITTY_SOCKET",
    "NVIM",
    "NVIM_LISTEN_ADDRESS",
    "EMACS_SERVER_FILE",
    "VSCODE_IPC_HOOK*",
    "VSCODE_GIT_*",
    "CLAUDE_CODE_SSE_PORT",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "PODMAN_HOST",
    "CONTAINERD_ADDRESS",
    "BUILDKIT_HOST",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
];

/// Variables that make programs run code at startup, or redirect git to another repository or configuration.
const INJECTING_VARIABLES: &[&str] = &[
    "LD_PRELOAD",
    "LD_AUDIT",
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "PYTHONSTARTUP",
    "PERL5OPT",
    "PERL5DB",
    "RUBYOPT",
    "GIT_CONFIG",
    "GIT_CONFIG_*",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_PROXY_COMMAND",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_hidden_by_name_and_value() {
        for (name, value, hidden) in [
            ("AWS_SECRET_ACCESS_KEY", "x", Some(Hidden::Credential)),
            ("GITHUB_TOKEN", "x", Some(Hidden::Credential)),
            ("MY_COMPANY_API_KEY", "x", Some(Hidden::Credential)),
            ("DATABASE_URL", "x", Some(Hidden::Credential)),
            ("ANTHROPIC_API_KEY", "x", None),
            ("OPENAI_API_KEY", "x", None),
            ("PATH", "x", None),
            ("SSH_AUTH_SOCK", "x", Some(Hidden::Socket)),
            ("LD_PRELOAD", "x", Some(Hidden::Injecting)),
            ("NODE_OPTIONS", "--max-old-space-size=4096", None),
            ("NODE_OPTIONS", "--require /tmp/x.js", Some(Hidden::Injecting)),
            ("GIT_AUTHOR_NAME", "x", None),
        ] {
            assert_eq!(hides_variable(OsStr::new(name), OsStr::new(value)), hidden, "{name}");
        }
    }
}
