//! The container's side: selects the commands that go to the host, and their route.
//!
//! Routing is a convenience and not a security boundary. Any process that can reach the socket or the key can send any
//! request; the host decides.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use sandbox_policy::config::command::line::{self, LineError};
use serde::{Deserialize, Serialize};

/// Prefix of the word with the working directory of a request over SSH, which precedes the command.
pub(crate) const CWD: &str = "AGENT_SANDBOX_CWD=";

/// Commands that a session sends to its host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Routes {
    /// Route of the requests. The serialized name is older, and running containers read it.
    #[serde(rename = "way")]
    pub route: Route,
    /// Commands, each with its leading words.
    pub commands: Vec<Vec<String>>,
}

/// Route of a request to the host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// Through a socket.
    Unix {
        /// Socket.
        socket: PathBuf,
    },
    /// Over SSH.
    Ssh(Ssh),
}

/// SSH connection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Ssh {
    /// User on the host.
    pub user: String,
    /// Host name.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Private key file.
    pub key: PathBuf,
    /// `known_hosts` file.
    pub known_hosts: PathBuf,
    /// True to accept an unknown host key on the first connection.
    pub accept_new: bool,
}

impl Routes {
    /// Returns true if a request goes to the host.
    pub fn covers(&self, name: &OsStr, args: &[OsString]) -> bool {
        self.commands.iter().any(|words| {
            let rest = &words[words.len().min(1)..];
            words.first().is_some_and(|first| name == OsStr::new(first))
                && args.len() >= rest.len()
                && rest.iter().zip(args).all(|(word, asked)| asked == OsStr::new(word))
        })
    }

    /// Returns true if any request of this name goes to the host.
    pub fn knows(&self, name: &OsStr) -> bool {
        self.commands
            .iter()
            .any(|words| words.first().is_some_and(|first| name == OsStr::new(first)))
    }
}

impl Ssh {
    /// Returns the arguments of the SSH client that sends a line. The line is the last one.
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

/// Encodes a request as one line for SSH.
pub(crate) fn request_line(cwd: &Path, argv: &[OsString]) -> Result<String, LineError> {
    let mut place = OsString::from(CWD);
    place.push(cwd);
    line::quote([place].iter().chain(argv))
}

/// Quotes a path for an option of ssh and escapes its expansions: `ssh_config(5)`.
fn option_path(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('%', "%%"))
}
