//! Arguments of `host-command`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Run host commands for an agent in a container.
#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Serve requests, as the forced command of sshd or on a Unix socket
    Serve(Serve),
    /// Compare the configuration's commands with the host's list
    Check(Check),
    /// Set up the host for requests over SSH: show the steps, and run them with `--yes`
    Setup(Setup),
    /// Forward a container's requests over SSH, with a key that the agent cannot read
    #[command(hide = true)]
    Relay(Relay),
}

/// Serve requests.
#[derive(Debug, Args)]
#[command(after_help = SERVE)]
pub(crate) struct Serve {
    /// Enforced list of commands
    #[arg(long, value_name = "FILE", default_value = sandbox_bridge::list::HOST_LIST)]
    pub list: PathBuf,
    /// Listen on this Unix socket instead of reading `SSH_ORIGINAL_COMMAND`
    #[arg(long, value_name = "SOCKET")]
    pub listen: Option<PathBuf>,
    /// Second list, of a session, that a request must pass; the enforced list may then be missing
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub session_list: Option<PathBuf>,
    /// Directory for locks, the audit log and an empty working directory
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Audit log [default: the one in the lists]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
}

const SERVE: &str = "\
In `authorized_keys`:

  restrict,command=\"/usr/local/bin/agent-sandbox host-command serve\" ssh-ed25519 AAAA…

Quoting in a request follows the rules of a POSIX shell, but no shell is started. A request that is not allowed \
prints `denied: NAME` on standard error and exits with 1. A request that takes too long exits with 124.";

/// Compare the configuration's commands with the host's list.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// List of the host
    #[arg(long, value_name = "FILE", default_value = sandbox_bridge::list::HOST_LIST)]
    pub list: PathBuf,
}

/// Set up the host for requests over SSH.
#[derive(Debug, Args)]
#[command(after_help = SETUP)]
pub(crate) struct Setup {
    /// User that runs the requests
    #[arg(long, value_name = "NAME", default_value = "host-runner")]
    pub user: String,
    /// Allow a command; only for a new list
    #[arg(long, value_name = "COMMAND")]
    pub allow: Vec<String>,
    /// Authorize the public key in FILE
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Restrict that key to these addresses, in the syntax of sshd's `from=`
    #[arg(long, value_name = "PATTERNS", requires = "key")]
    pub from: Option<String>,
    /// Expire that key at YYYYMMDD or YYYYMMDDHHMM
    #[arg(long, value_name = "TIME", requires = "key")]
    pub expires: Option<String>,
    /// Allow the user to run PROGRAM, an absolute path, as root
    #[arg(long, value_name = "PROGRAM")]
    pub sudo: Vec<PathBuf>,
    /// Run the steps
    #[arg(long)]
    pub yes: bool,
    /// Undo the steps
    #[arg(long)]
    pub undo: bool,
    /// Reload the configuration of the running sshd
    #[arg(long)]
    pub reload_sshd: bool,
}

const SETUP: &str = "\
Without `--yes` nothing is changed. Only `--reload-sshd` affects a running sshd.";

/// Forward a container's requests over SSH.
#[derive(Debug, Args)]
pub(crate) struct Relay {
    /// Listen on this Unix socket
    #[arg(long, value_name = "SOCKET")]
    pub listen: PathBuf,
    /// Private key
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Public keys of the host
    #[arg(long, value_name = "FILE")]
    pub known_hosts: PathBuf,
    /// SSH port of the host
    #[arg(long, default_value_t = 22)]
    pub port: u16,
    /// Accept an unknown host key on first use
    #[arg(long)]
    pub accept_new: bool,
    /// Host, as USER@HOST
    pub target: String,
}
