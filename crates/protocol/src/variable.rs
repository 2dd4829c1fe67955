//! Environment variables that configure PID 1 of a container. PID 1 removes them before the agent runs.

/// Defines each variable as a constant, and a list of the variables of each group.
macro_rules! variables {
    ($($(#[$about:meta])* $group:ident { $($(#[$doc:meta])* $name:ident,)+ })+) => {
        $(
            $($(#[$doc])* pub const $name: &str = stringify!($name);)+
            $(#[$about])* pub const $group: &[&str] = &[$($name),+];
        )+

        /// Names of all variables.
        pub fn all() -> impl Iterator<Item = &'static str> {
            [$($group),+].into_iter().flatten().copied()
        }
    };
}

variables! {
    /// Variables about the session. A control file may set only these.
    CONTROL {
        /// Token that authenticates the session to its control plane.
        SESSION_TOKEN,
        /// URL of the session's control plane.
        CONTROL_PLANE_URL,
        /// Name of the session, which PID 1 uses to find its persistent data.
        SESSION_ID,
    }

    /// Variables about the agent, its user and its environment.
    START {
        /// Program of the agent.
        AGENT_COMMAND,
        /// Arguments of the agent, separated by white space.
        AGENT_ARGS,
        /// Arguments of the agent, as a JSON array of strings. Takes precedence over [`AGENT_ARGS`].
        AGENT_ARGS_JSON,
        /// User of the agent: a name, a number, or two numbers `UID:GID`.
        AGENT_USER,
        /// Working directory of the agent.
        AGENT_WORKDIR,
        /// Switch that makes a missing user or working directory an error.
        AGENT_REQUIRE_USER,
        /// File with the variables of [`CONTROL`].
        AGENT_CONTROL_FILE,
        /// Program of the agent under `init`. Takes precedence over [`AGENT_COMMAND`].
        AGENT_BINARY,
        /// Engine of the copy-on-write layer on the home: a [`Cow`](crate::value::Cow).
        AGENT_COW,
        /// Seconds between the stop signal and the kill.
        AGENT_STOP_GRACE,
        /// Uid of PID 1 in a rootless container, where the agent has uid 0 (an ordinary user outside).
        AGENT_KEEPER,
        /// Home of the agent, if it exists and needs no set-up.
        AGENT_HOME,
        /// Expected identity of each mount, as a JSON array of `[PATH, DEVICE, INODE]`.
        AGENT_MOUNTS,
        /// Rendezvous socket of the proxy.
        AGENT_DOOR,
        /// Loopback address of the listeners for the proxy.
        AGENT_DOOR_ADDRESS,
        /// Ports of the listeners for the proxy: a list of [`Port`](crate::value::Port)s.
        AGENT_DOOR_PORTS,
        /// Relay of host commands, as a JSON array `[USER, KEY, PLACE, SOCKET, [PROGRAM, WORD, …]]`.
        AGENT_RELAY,
        /// Switch that keeps the container up after a failed start.
        AGENT_DEBUG_HOLD,
        /// Docker daemon beside the agent: a [`Dockerd`](crate::value::Dockerd).
        AGENT_DOCKERD,
        /// Users of the Docker socket: `all` or `group`.
        AGENT_DOCKER_SOCKET,
        /// Repository to clone into the workspace.
        WORKSPACE_PATH,
        /// Commit to check out in the workspace.
        WORKSPACE_COMMIT,
    }
}

/// Prefix reserved for variables of PID 1, including future ones.
const RESERVED: &str = "AGENT_";

/// Returns true for an entry `NAME=VALUE` of the environment that the agent does not get. Ignores case, because a
/// program may look variables up case-insensitively.
pub fn is_stripped(entry: &[u8]) -> bool {
    let name = entry.split(|byte| *byte == b'=').next().unwrap_or(entry);
    all().any(|stripped| name.eq_ignore_ascii_case(stripped.as_bytes()))
}

/// Returns true for a name that neither a configuration nor an image may set.
pub fn is_reserved(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    upper.starts_with(RESERVED)
        || CONTROL.contains(&upper.as_str())
        || START.iter().any(|name| upper.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_stripped_knows_every_name_in_any_case_and_no_other() {
        assert_eq!(all().count(), CONTROL.len() + START.len());
        for name in all() {
            assert!(is_stripped(format!("{name}=x").as_bytes()), "{name}");
            assert!(is_stripped(name.to_lowercase().as_bytes()), "{name}");
            assert!(!is_stripped(format!("{name}S=x").as_bytes()), "{name}");
        }
        for kept in ["PATH=/bin", "HOME=/", "GITHUB_TOKEN=SESSION_TOKEN=x", "=SESSION_ID", ""] {
            assert!(!is_stripped(kept.as_bytes()), "{kept}");
        }
    }

    #[test]
    fn is_reserved_knows_every_name_and_the_prefix() {
        for name in all() {
            assert!(is_reserved(name) && is_reserved(&name.to_lowercase()), "{name}");
        }
        for name in ["AGENT_NEW", "agent_x", "WORKSPACE_PATHS"] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["PATH", "AGENTS", "SESSION_IDS", "WORKSPACE", ""] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
