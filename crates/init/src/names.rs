//! The names of the variables that are read here and are gone before the agent runs.

pub(crate) const SESSION_TOKEN: &str = "SESSION_TOKEN";
pub(crate) const CONTROL_PLANE_URL: &str = "CONTROL_PLANE_URL";
pub(crate) const SESSION_ID: &str = "SESSION_ID";
pub(crate) const AGENT_COMMAND: &str = "AGENT_COMMAND";
pub(crate) const AGENT_ARGS: &str = "AGENT_ARGS";
pub(crate) const AGENT_ARGS_JSON: &str = "AGENT_ARGS_JSON";
pub(crate) const AGENT_USER: &str = "AGENT_USER";
pub(crate) const AGENT_WORKDIR: &str = "AGENT_WORKDIR";
pub(crate) const AGENT_REQUIRE_USER: &str = "AGENT_REQUIRE_USER";
pub(crate) const AGENT_CONTROL_FILE: &str = "AGENT_CONTROL_FILE";
pub(crate) const AGENT_BINARY: &str = "AGENT_BINARY";
pub(crate) const AGENT_COW: &str = "AGENT_COW";
pub(crate) const AGENT_STOP_GRACE: &str = "AGENT_STOP_GRACE";
pub(crate) const AGENT_KEEPER: &str = "AGENT_KEEPER";
pub(crate) const AGENT_HOME: &str = "AGENT_HOME";
pub(crate) const AGENT_MOUNTS: &str = "AGENT_MOUNTS";
pub(crate) const AGENT_DOOR: &str = "AGENT_DOOR";
pub(crate) const AGENT_DOOR_ADDRESS: &str = "AGENT_DOOR_ADDRESS";
pub(crate) const AGENT_DOOR_PORTS: &str = "AGENT_DOOR_PORTS";
pub(crate) const AGENT_RELAY: &str = "AGENT_RELAY";
pub(crate) const AGENT_DEBUG_HOLD: &str = "AGENT_DEBUG_HOLD";
pub(crate) const AGENT_DOCKERD: &str = "AGENT_DOCKERD";
pub(crate) const AGENT_DOCKER_SOCKET: &str = "AGENT_DOCKER_SOCKET";
pub(crate) const WORKSPACE_PATH: &str = "WORKSPACE_PATH";
pub(crate) const WORKSPACE_COMMIT: &str = "WORKSPACE_COMMIT";

/// What the control plane says about the session. A control file may hold these and nothing else.
pub(crate) const CONTROL: [&str; 3] = [SESSION_TOKEN, CONTROL_PLANE_URL, SESSION_ID];

/// Everything that the agent does not see.
pub(crate) const STRIPPED: [&str; 25] = [
    SESSION_TOKEN,
    CONTROL_PLANE_URL,
    SESSION_ID,
    AGENT_COMMAND,
    AGENT_ARGS,
    AGENT_ARGS_JSON,
    AGENT_USER,
    AGENT_WORKDIR,
    AGENT_REQUIRE_USER,
    AGENT_CONTROL_FILE,
    AGENT_BINARY,
    AGENT_COW,
    AGENT_STOP_GRACE,
    AGENT_KEEPER,
    AGENT_HOME,
    AGENT_MOUNTS,
    AGENT_DOOR,
    AGENT_DOOR_ADDRESS,
    AGENT_DOOR_PORTS,
    AGENT_RELAY,
    AGENT_DEBUG_HOLD,
    AGENT_DOCKERD,
    AGENT_DOCKER_SOCKET,
    WORKSPACE_PATH,
    WORKSPACE_COMMIT,
];

/// Whether an entry of the environment goes. Letter case is not looked at: a program that looks
/// variables up without it would find the value otherwise.
pub(crate) fn is_stripped(entry: &[u8]) -> bool {
    let name = entry.split(|byte| *byte == b'=').next().unwrap_or(entry);
    STRIPPED.iter().any(|stripped| name.eq_ignore_ascii_case(stripped.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_stripped_knows_every_name_in_any_case_and_no_other() {
        for name in STRIPPED {
            assert!(is_stripped(format!("{name}=x").as_bytes()), "{name}");
            assert!(is_stripped(name.to_lowercase().as_bytes()), "{name}");
            assert!(!is_stripped(format!("{name}S=x").as_bytes()), "{name}");
        }
        for kept in ["PATH=/bin", "HOME=/", "GITHUB_TOKEN=SESSION_TOKEN=x", "=SESSION_ID", ""] {
            assert!(!is_stripped(kept.as_bytes()), "{kept}");
        }
    }
}
