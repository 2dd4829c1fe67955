//! Arguments of the commands for credentials.

use std::net::SocketAddr;

use clap::{Args, Subcommand};

use super::secret;

/// Commands for credentials.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Store, list, remove and test secrets
    Secret {
        #[command(subcommand)]
        command: Option<secret::Secret>,
    },
    /// Run the credential proxy, which keeps keys outside sandboxes
    Proxy(Proxy),
    /// Show requests and tokens per model provider
    Usage(Usage),
}

/// Run the credential proxy, which keeps keys outside sandboxes.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct Proxy {
    /// Also accept clients with a session's token on ADDRESS
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<SocketAddr>,
    /// Also serve the admin API on ADDRESS, for clients with the token in `AGENT_SANDBOX_PROXY_ADMIN_TOKEN`
    #[arg(long, value_name = "ADDRESS")]
    pub admin_listen: Option<SocketAddr>,
    /// Run in the background until the last session ends; return when it is ready
    #[arg(long)]
    pub detach: bool,
    /// Run as the process that `--detach` starts
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub background: bool,
}

/// Show requests and tokens per model provider.
#[derive(Debug, Args)]
#[command(
    after_help = "The numbers come from the proxy's log, which never contains prompts or answers."
)]
pub(crate) struct Usage {
    /// Show the last N days
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub days: u32,
    /// Show only the sandbox with this id
    #[arg(long, value_name = "ID")]
    pub sandbox: Option<String>,
}

const AFTER: &str = "\
One proxy serves all sandboxes of a user. It starts on demand and ends with the last session. \
Run it in a terminal to watch it, or to add listeners. Its admin socket is `proxy/admin` below \
`$XDG_RUNTIME_DIR/agent-sandbox`, or below the state directory:

  curl --unix-socket $XDG_RUNTIME_DIR/agent-sandbox/proxy/admin http://proxy/v1/sessions";
