//! Who runs the tests, with which tools and settings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where tests look for programs: what a stock system has, whatever the developer's shell adds to it.
pub(crate) const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The kind of user that runs the tests. Some walls differ between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// User id 0.
    Root,
    /// Everybody else.
    Ordinary,
}

/// Who runs this test.
pub fn user() -> User {
    if rustix::process::getuid().is_root() { User::Root } else { User::Ordinary }
}

/// The path of a program that the test cannot do without.
///
/// # Panics
/// When it is not installed: a test that skips itself shows nothing.
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

/// The Debian package of a tool, where it has another name.
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

/// The folder of the SDKs that `./dev test` installs: AgentFS's own, and the model providers'.
///
/// # Panics
/// When the tests were started in another way.
#[track_caller]
pub fn sdk() -> PathBuf {
    let folder = setting("AGENT_SANDBOX_SDK").map(PathBuf::from);
    folder.filter(|folder| folder.is_dir()).unwrap_or_else(|| {
        panic!("this test needs other people's SDKs; run `./dev test`, which installs them")
    })
}

/// The folder of the real agents, `claude` and `codex`, that `./dev test agents` installs.
///
/// # Panics
/// When the tests were started in another way.
#[track_caller]
pub fn agents() -> PathBuf {
    let folder = setting("AGENT_SANDBOX_AGENTS").map(PathBuf::from);
    folder.expect("this test needs real agents; start it with: ./dev test agents")
}

/// How often a loop goes round: `short` in `./dev test`, `long` in `./dev soak`.
pub fn rounds(short: usize, long: usize) -> usize {
    if setting("AGENT_SANDBOX_SOAK").is_some() { long } else { short }
}

/// A variable of the process that runs the tests, when it is set and not empty.
pub(crate) fn setting(name: &str) -> Option<OsString> {
    #[allow(
        clippy::disallowed_methods,
        reason = "a test has no `Host`; this is the one place that reads"
    )]
    std::env::var_os(name).filter(|value| !value.is_empty())
}
