//! Paths inside sandboxes and containers.

/// Name of the main binary.
pub const BINARY: &str = "agent-sandbox";
/// Name of the binary that is PID 1 of a container.
pub const INIT: &str = "agent-sandbox-init";

/// Returns a path below the runtime directory.
macro_rules! runtime {
    ($below:literal) => {
        concat!("/run/agent-sandbox", $below)
    };
}

/// Runtime directory of a sandbox or container. Its existence means "inside a sandbox".
pub const RUNTIME_DIR: &str = runtime!("");
/// Path of the main binary inside every sandbox.
pub const RUNTIME_BINARY: &str = runtime!("/agent-sandbox");
/// Path of a container's PID 1 when it is mounted.
pub const RUNTIME_INIT: &str = runtime!("/agent-sandbox-init");
/// Path of a container's PID 1 when the image provides it.
pub const IMAGE_INIT: &str = "/usr/local/bin/agent-sandbox-init";
/// Directory that only uid 0 of a container can enter.
pub const PRIVATE_DIR: &str = runtime!("/private");
/// Directory of the writable files of a read-only home. Symlinks in the home point there.
pub const FILES_DIR: &str = "/run/agent-sandbox-files";

/// Subdirectories of the runtime directory.
pub mod runtime {
    /// Real programs of commands that have a rule.
    pub const BIN: &str = "bin";
    /// Packages that contain those programs.
    pub const REAL: &str = "real";
    /// Wrapper scripts of commands.
    pub const WRAPPERS: &str = "wrappers";
    /// Markers of built-in rules.
    pub const PRESETS: &str = "presets";
    /// Links to the main binary, named after commands that have a rule. Used in containers.
    pub const LINKS: &str = "links";
    /// Runtime directory of the sandbox around this one.
    pub const OUTER: &str = "outer";
    /// File with the description of the policy.
    pub const POLICY: &str = "policy";

    /// Subdirectories in a sandbox, with mode 0111 so that they can be used but not listed.
    pub const DIRS: [&str; 4] = [BIN, REAL, WRAPPERS, PRESETS];
}

/// Host commands in a container.
pub mod bridge {
    /// Mount point of the session's side.
    pub const DIR: &str = runtime!("/bridge");
    /// Routes of commands.
    pub const ROUTES: &str = runtime!("/bridge/routes.json");
    /// Directory of the shims, the first one in `PATH`.
    pub const SHIMS: &str = runtime!("/bridge/bin");
    /// Directory of the relay's socket.
    pub const RELAY_DIR: &str = runtime!("/relay");
}

/// Directories of a session on the host that are mounted into its container.
pub mod session {
    /// Directory of the control file.
    pub const CONTROL_DIR: &str = "control";
    /// Control file, in [`CONTROL_DIR`].
    pub const CONTROL_FILE: &str = "control";
    /// Directory of the proxy's rendezvous socket.
    pub const RENDEZVOUS_DIR: &str = "door";
    /// Rendezvous socket, in [`RENDEZVOUS_DIR`].
    pub const RENDEZVOUS_SOCKET: &str = "attach.sock";
}

/// Home of the agent in a container.
pub const HOME: &str = "/home/agent";
/// Project in a container.
pub const WORKSPACE: &str = "/workspace";
/// Volume for the persistent data of a home.
pub const DATA: &str = "/.data";
/// Name of the directory of layers, in the directory that they belong to.
pub const LAYERS_DIR: &str = ".agentfs";

/// Default `PATH`, for images without one and for processes that must not use the agent's.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_are_in_the_runtime_directory() {
        assert_eq!(RUNTIME_BINARY, format!("{RUNTIME_DIR}/{BINARY}"));
        assert_eq!(RUNTIME_INIT, format!("{RUNTIME_DIR}/{INIT}"));
        assert!(IMAGE_INIT.ends_with(INIT));
        assert!(!FILES_DIR.starts_with(&format!("{RUNTIME_DIR}/")));
    }
}
