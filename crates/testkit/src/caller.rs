//! Environment of the test run: user, installed tools and settings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `PATH` of tests: that of a stock system, independent of the developer's shell.
pub(crate) const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Kind of user that runs the tests. Some protections differ between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// Uid 0.
    Root,
    /// Any other uid.
    Ordinary,
}

/// Returns the user that runs this test.
pub fn user() -> User {
    if rustix::process::getuid().is_root() { User::Root } else { User::Ordinary }
}

/// Returns the path of a required program.
///
/// # Panics
/// When it is not installed. A skipped test would prove nothing.
#[track_caller]
pub fn need(tool: &str) -> PathBuf {
    find(tool).unwrap_or_else(|| {
        let package = package(tool);
        panic!(
            "this test needs `{tool}`; install with: apt install {package} (or run `./dev setup`)"
        )
    })
}

fn find(tool: &str) -> Option<PathBuf> {
    let candidates = SEARCH_PATH.split(':').map(|dir| Path::new(dir).join(tool));
    candidates.into_iter().find(|path| path.is_file())
}

/// Returns the Debian package of a tool.
fn package(tool: &str) -> &str {
    match tool {
        "bwrap" => "bubblewrap",
        "setsid" | "setpriv" | "script" | "unshare" | "nsenter" => "util-linux",
        "fusermount3" => "fuse3",
        "sshd" => "openssh-server",
        "docker" | "dockerd" => "docker.io",
        "busybox" => "busybox-static",
        "qemu-aarch64-static" => "qemu-user-static",
        "cc" => "gcc",
        "node" => "nodejs",
        "java" | "keytool" => "default-jdk-headless",
        "go" => "golang-go",
        "gnome-keyring-daemon" => "gnome-keyring",
        "secret-tool" => "libsecret-tools",
        "dbus-run-session" => "dbus-daemon",
        "pip3" => "python3-pip",
        "ps" | "pgrep" => "procps",
        same => same,
    }
}

/// Returns the directory of the SDKs that `./dev test` installs: AgentFS's, and those of model providers.
///
/// # Panics
/// When the tests were not started by `./dev test`.
#[track_caller]
pub fn sdk() -> PathBuf {
    let folder = setting("AGENT_SANDBOX_SDK").map(PathBuf::from);
    folder.filter(|folder| folder.is_dir()).unwrap_or_else(|| {
        panic!("this test needs third-party SDKs; install them with: ./dev test")
    })
}

/// Returns the directory of the real agents, `claude` and `codex`, that `./dev test agents` installs.
///
/// # Panics
/// When the tests were not started by `./dev test agents`.
#[track_caller]
pub fn agents() -> PathBuf {
    let folder = setting("AGENT_SANDBOX_AGENTS").map(PathBuf::from);
    folder.expect("this test needs real agents; start it with: ./dev test agents")
}

/// Returns the number of repetitions: `short` in `./dev test`, `long` in `./dev soak`.
pub fn rounds(short: usize, long: usize) -> usize {
    if setting("AGENT_SANDBOX_SOAK").is_some() { long } else { short }
}

/// Returns an environment variable of the test run, if it is set and not empty.
pub(crate) fn setting(name: &str) -> Option<OsString> {
    #[allow(
        clippy::disallowed_methods,
        reason = "tests have no `Host`, and only this function reads variables"
    )]
    std::env::var_os(name).filter(|value| !value.is_empty())
}
