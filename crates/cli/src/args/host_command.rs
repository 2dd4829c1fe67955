//! `host-command`: what can be said to the bridge between a container and its host.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands that an agent in a container may have run on the host.
#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Carry out requests: as the forced command of sshd, or on a Unix socket
    Serve(Serve),
    /// Compare the configuration's commands with the host's list, and say what they mean
    Check(Check),
    /// Prepare the host for requests by SSH: shows every step, and takes it with `--yes`
    Setup(Setup),
    /// Pass requests of a container on by SSH, with a key that the agent cannot read
    #[command(hide = true)]
    Relay(Relay),
}

/// Carry out requests.
#[derive(Debug, Args)]
#[command(after_help = SERVE)]
pub(crate) struct Serve {
    /// The list that is enforced
    #[arg(long, value_name = "FILE", default_value = sandbox_bridge::list::HOST_LIST)]
    pub list: PathBuf,
    /// Listen at this Unix socket instead of reading `SSH_ORIGINAL_COMMAND`
    #[arg(long, value_name = "SOCKET")]
    pub listen: Option<PathBuf>,
    /// The list of a session: a request must pass it too. The enforced one may then be missing
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub session_list: Option<PathBuf>,
    /// Where locks, the audit log and an empty working directory lie
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The audit log, in the place of the one that the lists name
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
}

const SERVE: &str = "\
In `authorized_keys`:

  restrict,command=\"/usr/local/bin/agent-sandbox host-command serve\" ssh-ed25519 AAAA…

Quoting in the request is read as a POSIX shell reads it, and no shell is ever started. A request that is not allowed
ends with `denied: NAME` on standard error and exit code 1, one that takes too long with 124.";

/// Compare the configuration's commands with the host's list.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The host's list
    #[arg(long, value_name = "FILE", default_value = sandbox_bridge::list::HOST_LIST)]
    pub list: PathBuf,
}

/// Prepare the host for requests by SSH.
#[derive(Debug, Args)]
#[command(after_help = SETUP)]
pub(crate) struct Setup {
    /// The user that requests run as
    #[arg(long, value_name = "NAME", default_value = "pipo-runner")]
    pub user: String,
    /// Allow a command; only for a list that does not exist yet
    #[arg(long, value_name = "COMMAND")]
    pub allow: Vec<String>,
    /// A public key to let in: a file
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// From where that key may be used, as sshd's `from=` takes it
    #[arg(long, value_name = "PATTERNS", requires = "key")]
    pub from: Option<String>,
    /// Until when that key may be used: YYYYMMDD or YYYYMMDDHHMM
    #[arg(long, value_name = "TIME", requires = "key")]
    pub expires: Option<String>,
    /// A program that the user may run as root, by its absolute path
    #[arg(long, value_name = "PROGRAM")]
    pub sudo: Vec<PathBuf>,
    /// Take the steps
    #[arg(long)]
    pub yes: bool,
    /// Take the steps back
    #[arg(long)]
    pub undo: bool,
    /// Tell the running sshd to read its settings again
    #[arg(long)]
    pub reload_sshd: bool,
}

const SETUP: &str = "\
Without `--yes` nothing is changed. A running sshd is left alone unless `--reload-sshd` is given.";

/// Pass requests on by SSH.
#[derive(Debug, Args)]
pub(crate) struct Relay {
    /// Where to listen
    #[arg(long, value_name = "SOCKET")]
    pub listen: PathBuf,
    /// The private key
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// The host's own keys
    #[arg(long, value_name = "FILE")]
    pub known_hosts: PathBuf,
    /// The host's port
    #[arg(long, default_value_t = 22)]
    pub port: u16,
    /// Believe an unknown host key the first time
    #[arg(long)]
    pub accept_new: bool,
    /// USER@HOST
    pub target: String,
}
