//! What was typed about sessions that stay up.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring a session up: a sandbox that stays, for `exec --session`
    Up(Up),
    /// Take sessions down; their changes and logs stay
    Down(Down),
    /// Join the terminal of a session's agent; ^P ^Q leaves it
    Attach(One),
    /// Show what a session said
    Logs(Logs),
    /// Take a session down and bring it up again
    Restart(One),
    /// Tell everything about a session
    Inspect(One),
    /// Offer sessions over HTTP, on a socket for you alone or at an address with a token
    Serve(Serve),
    /// List sessions
    Ps,
    /// Remove sessions, with their changes
    Rm(Rm),
    /// Remove sessions that change nothing, that are old, or whose base is gone
    Prune(Prune),
}

/// Bring a session up.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// What to call it; after the directory when left out
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Take down a session that is up with other settings, and bring it up with these
    #[arg(long)]
    pub recreate: bool,
}

/// Remove sessions.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Their names
    #[arg(required = true, value_name = "SESSION")]
    pub names: Vec<String>,
    /// Do not ask about work that was not applied
    #[arg(short, long)]
    pub yes: bool,
}

/// Take sessions down.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// The sessions; the one of this directory when left out
    #[arg(value_name = "SESSION")]
    pub names: Vec<String>,
    /// All there are
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
}

/// One session.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The session; the one of this directory when left out
    #[arg(value_name = "SESSION")]
    pub name: Option<String>,
}

/// Show what a session said.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The session; the one of this directory when left out
    #[arg(value_name = "SESSION")]
    pub name: Option<String>,
    /// Go on until the session ends
    #[arg(short, long)]
    pub follow: bool,
    /// Only so many lines at the end
    #[arg(short = 'n', long, value_name = "LINES")]
    pub tail: Option<usize>,
}

/// Offer sessions over HTTP.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The socket; in your data directory when left out
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Listen at an address, too; the token that it asks for is `AGENT_SANDBOX_API_TOKEN`
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Make no further session when there are so many
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub max_sessions: usize,
    /// Print the description of the calls, an `OpenAPI` document, and do nothing else
    #[arg(long, conflicts_with_all = ["socket", "listen"])]
    pub openapi: bool,
}

/// Remove sessions that nobody will miss.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Also these, with work that was not applied
    #[arg(value_name = "SESSION")]
    pub names: Vec<String>,
    /// Also those without such work that were not used for so long
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub older_than: u64,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}
