//! Paths inside sandboxes and containers.

/// Name of the main binary, in the runtime directory and beside the other one.
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
/// Main binary, as every sandbox sees it.
pub const RUNTIME_BINARY: &str = runtime!("/agent-sandbox");
/// PID 1 of a container, when it is mounted.
pub const RUNTIME_INIT: &str = runtime!("/agent-sandbox-init");
/// PID 1 of a container, when the image provides it.
pub const IMAGE_INIT: &str = "/usr/local/bin/agent-sandbox-init";
/// Directory that only the root user of a container can enter.
pub const PRIVATE_DIR: &str = runtime!("/private");
/// Directory of the writable files of a read-only home. Links in the home lead there.
pub const FILES_DIR: &str = "/run/agent-sandbox-files";

/// Subdirectories of the runtime directory.
pub mod runtime {
    /// Real programs of ruled commands.
    pub const BIN: &str = "bin";
    /// Packages that real programs are part of.
    pub const REAL: &str = "real";
    /// Scripts that stand in for commands.
    pub const WRAPPERS: &str = "wrappers";
    /// Markers of built-in rules.
    pub const PRESETS: &str = "presets";
    /// Links to the main binary under the names of ruled commands, in a container.
    pub const LINKS: &str = "links";
    /// Runtime directory of the sandbox around this one.
    pub const OUTER: &str = "outer";
    /// File with the description of the policy.
    pub const POLICY: &str = "policy";

    /// Directories of a sandbox's runtime; mode 0111, so that they can be used but not listed.
    pub const DIRS: [&str; 4] = [BIN, REAL, WRAPPERS, PRESETS];
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
/// Volume for what the set-up of a home keeps.
pub const DATA: &str = "/.data";
/// Directory of layers, below the directory that they belong to.
pub const LAYERS_DIR: &str = ".agentfs";

/// Search path of images that set none, and of processes that must not use the agent's.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_lie_in_the_runtime_directory() {
        assert_eq!(RUNTIME_BINARY, format!("{RUNTIME_DIR}/{BINARY}"));
        assert_eq!(RUNTIME_INIT, format!("{RUNTIME_DIR}/{INIT}"));
        assert!(IMAGE_INIT.ends_with(INIT));
        assert!(!FILES_DIR.starts_with(&format!("{RUNTIME_DIR}/")));
    }
}
