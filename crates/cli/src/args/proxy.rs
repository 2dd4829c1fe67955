//! `proxy`: what can be said to the credential proxy.

use std::net::SocketAddr;

use clap::{Args, Subcommand};

use super::secret;

/// Credentials, the proxy that holds them, and what it did.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Keep secrets, encrypted, for the proxy to use
    Secret {
        #[command(subcommand)]
        command: Option<secret::Secret>,
    },
    /// Run the credential proxy, which holds keys for sandboxes that only hold tokens
    Proxy(Proxy),
    /// Tell what sandboxes have asked of model providers, and what it cost in tokens
    Usage(Usage),
}

/// Run the credential proxy, which holds keys for sandboxes that only hold tokens.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct Proxy {
    /// Let clients with a session's token in at ADDRESS, besides sandboxes
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<SocketAddr>,
    /// Offer the admin interface at ADDRESS too, to whoever has the token in `AGENT_SANDBOX_PROXY_ADMIN_TOKEN`
    #[arg(long, value_name = "ADDRESS")]
    pub admin_listen: Option<SocketAddr>,
    /// Run in the background until no session is left; return when it can be used
    #[arg(long)]
    pub detach: bool,
    /// The process that `--detach` leaves behind
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub background: bool,
}

/// Tell what sandboxes have asked of model providers, and what it cost in tokens.
#[derive(Debug, Args)]
#[command(
    after_help = "Read from the proxy's log, which says what was done and never what was said."
)]
pub(crate) struct Usage {
    /// Look back so many days
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub days: u32,
    /// Count one sandbox alone, by its id
    #[arg(long, value_name = "ID")]
    pub sandbox: Option<String>,
}

const AFTER: &str = "\
One proxy serves all sandboxes of a user. They start it when they need it, and it ends with the last session;
run it yourself to see it work, or to give it listeners. Its admin socket is `proxy/admin` below
`$XDG_RUNTIME_DIR/agent-sandbox`, or below the state directory:

  curl --unix-socket $XDG_RUNTIME_DIR/agent-sandbox/proxy/admin http://proxy/v1/sessions";
