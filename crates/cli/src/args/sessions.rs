//! Arguments of the commands for sessions.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a session; `exec --session` runs commands in it
    Up(Up),
    /// Stop sessions; keep their changes and logs
    Down(Down),
    /// Attach to the terminal of a session's agent
    #[command(after_help = "Detach with Ctrl-P Ctrl-Q.")]
    Attach(One),
    /// Show a session's log
    Logs(Logs),
    /// Stop a session and start it again
    Restart(One),
    /// Show session details
    Inspect(One),
    /// Serve the session API over HTTP
    Serve(Serve),
    /// List sessions
    Ps,
    /// Remove sessions and their changes
    Rm(Rm),
    /// Remove sessions that are empty, old or without a project
    Prune(Prune),
}

/// Start a session.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Name of the session [default: the name of the directory]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Recreate a running session whose settings differ
    #[arg(long)]
    pub recreate: bool,
}

/// Remove sessions and their changes.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Sessions
    #[arg(required = true, value_name = "SESSION")]
    pub names: Vec<String>,
    /// Do not ask about unapplied changes
    #[arg(short, long)]
    pub yes: bool,
}

/// Stop sessions.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// Sessions [default: the one of this directory]
    #[arg(value_name = "SESSION")]
    pub names: Vec<String>,
    /// Stop all sessions
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
}

/// Session argument.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// Session [default: the one of this directory]
    #[arg(value_name = "SESSION")]
    pub name: Option<String>,
}

/// Show a session's log.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Session [default: the one of this directory]
    #[arg(value_name = "SESSION")]
    pub name: Option<String>,
    /// Continue until the session ends
    #[arg(short, long)]
    pub follow: bool,
    /// Show only the last lines
    #[arg(short = 'n', long, value_name = "LINES")]
    pub tail: Option<usize>,
}

/// Serve the session API over HTTP.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Listen on this Unix socket [default: api.sock in your data directory]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Also listen on ADDRESS, for clients with the token in `AGENT_SANDBOX_API_TOKEN`
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Refuse to create more sessions than COUNT
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub max_sessions: usize,
    /// Print the API description, an `OpenAPI` document, and exit
    #[arg(long, conflicts_with_all = ["socket", "listen"])]
    pub openapi: bool,
}

/// Remove sessions that are empty, old or without a project.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Also remove these, with their unapplied changes
    #[arg(value_name = "SESSION")]
    pub names: Vec<String>,
    /// Remove sessions without unapplied changes that were not used for DAYS
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub older_than: u64,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}
