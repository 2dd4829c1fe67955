//! The container's side: which commands go to the host, and by which route.
//!
//! Routing is a convenience, not a wall. Whoever can reach the socket or the key can ask for anything; the host decides.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use sandbox_policy::config::command::line::{self, LineError};
use serde::{Deserialize, Serialize};

/// Where a session's side of the bridge is mounted.
pub const BRIDGE_DIR: &str = "/run/agent-sandbox/bridge";
/// What is routed, and how.
pub const ROUTES: &str = "/run/agent-sandbox/bridge/routes.json";
/// The folder of the shims, which comes first in `PATH`.
pub const SHIMS: &str = "/run/agent-sandbox/bridge/bin";
/// Prefix of the word that names the directory of a request by SSH. It stands before the command.
pub(crate) const CWD: &str = "AGENT_SANDBOX_CWD=";

/// What a session sends to its host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Routes {
    /// Route of the requests. The key is older than the name, and read by running containers.
    #[serde(rename = "way")]
    pub route: Route,
    /// Commands, each with the words it begins with.
    pub commands: Vec<Vec<String>>,
}

/// Route of a request to the host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// By a socket.
    Unix {
        /// The socket.
        socket: PathBuf,
    },
    /// By SSH.
    Ssh(Ssh),
}

/// An SSH connection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Ssh {
    /// The user on the host.
    pub user: String,
    /// The host's name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The private key.
    pub key: PathBuf,
    /// The host's own key.
    pub known_hosts: PathBuf,
    /// Whether an unknown host key is believed the first time.
    pub accept_new: bool,
}

impl Routes {
    /// Whether a request goes to the host.
    pub fn covers(&self, name: &OsStr, args: &[OsString]) -> bool {
        self.commands.iter().any(|words| {
            let rest = &words[words.len().min(1)..];
            words.first().is_some_and(|first| name == OsStr::new(first))
                && args.len() >= rest.len()
                && rest.iter().zip(args).all(|(word, asked)| asked == OsStr::new(word))
        })
    }

    /// Whether some request of this name goes to the host.
    pub fn knows(&self, name: &OsStr) -> bool {
        self.commands
            .iter()
            .any(|words| words.first().is_some_and(|first| name == OsStr::new(first)))
    }
}

impl Ssh {
    /// The words of the client that sends a line; the line comes last.
    pub fn words(&self, line: &str) -> Vec<OsString> {
        let strict = if self.accept_new { "accept-new" } else { "yes" };
        let options = [
            "BatchMode=yes".to_owned(),
            "IdentitiesOnly=yes".into(),
            "PreferredAuthentications=publickey".into(),
            format!("StrictHostKeyChecking={strict}"),
            format!("UserKnownHostsFile={}", option_path(&self.known_hosts)),
            "GlobalKnownHostsFile=/dev/null".into(),
            "ForwardAgent=no".into(),
            "ForwardX11=no".into(),
            "ClearAllForwardings=yes".into(),
            "PermitLocalCommand=no".into(),
            "ControlPath=none".into(),
            "ConnectTimeout=20".into(),
            "ServerAliveInterval=15".into(),
            "LogLevel=ERROR".into(),
        ];
        let mut words: Vec<OsString> =
            ["ssh", "-F", "none", "-T", "-i"].map(OsString::from).to_vec();
        words.push(self.key.clone().into());
        words.extend(["-p".into(), self.port.to_string().into()]);
        words.extend(options.into_iter().flat_map(|option| ["-o".into(), OsString::from(option)]));
        words.extend(["-l".into(), self.user.clone().into(), "--".into()]);
        words.extend([OsString::from(&self.host), line.into()]);
        words
    }
}

/// Writes a request as one line, for SSH.
pub(crate) fn request_line(cwd: &Path, argv: &[OsString]) -> Result<String, LineError> {
    let mut place = OsString::from(CWD);
    place.push(cwd);
    line::quote([place].iter().chain(argv))
}

/// A path in an option of ssh's: quoted, and without its own expansions.
fn option_path(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('%', "%%"))
}
