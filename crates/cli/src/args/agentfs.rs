//! Command line of the tool `agentfs`, for the commands that this program supports.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Command line of `agentfs`.
#[derive(Debug, Parser)]
#[command(
    name = "agentfs",
    version,
    about = "AgentFS command line, provided by agent-sandbox",
    max_term_width = 100
)]
pub(crate) struct AgentFs {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a filesystem
    Init {
        /// Letters, digits, `-` and `_` [default: agent-TIME]
        id: Option<String>,
        /// Replace an existing filesystem with this ID
        #[arg(long)]
        force: bool,
        /// Directory below the filesystem
        #[arg(long)]
        base: Option<PathBuf>,
    },
    /// Mount a filesystem; without arguments, list mounts
    Mount {
        /// ID or path of a database
        #[arg(requires = "mountpoint")]
        id_or_path: Option<OsString>,
        /// Directory to mount it on
        mountpoint: Option<PathBuf>,
        /// Unmount when the serving process ends
        #[arg(short, long)]
        auto_unmount: bool,
        /// Give root access, too
        #[arg(long)]
        allow_root: bool,
        /// Give all users access
        #[arg(long)]
        system: bool,
        /// Stay in the foreground
        #[arg(short, long)]
        foreground: bool,
        /// Show UID as the owner of every file
        #[arg(long)]
        uid: Option<u32>,
        /// Show GID as the group of every file
        #[arg(long)]
        gid: Option<u32>,
        /// Mount mechanism
        #[arg(long, value_enum, default_value_t = Backend::Fuse)]
        backend: Backend,
    },
    /// Read a filesystem without mounting it
    Fs {
        /// ID or path of a database
        id_or_path: OsString,
        #[command(subcommand)]
        command: Inside,
    },
    /// List changes relative to the base
    Diff {
        /// ID or path of a database
        id_or_path: OsString,
    },
    /// List logged tool calls
    Timeline {
        /// ID or path of a database
        id_or_path: OsString,
        /// Show the last LIMIT calls
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// Output format
        #[arg(long, default_value = "table", value_parser = ["table", "json"])]
        format: String,
    },
    /// List mounts
    Ps,
    /// Unsupported subcommand.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    Fuse,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Inside {
    /// List everything
    Ls {
        /// Directory to start from
        #[arg(default_value = "/")]
        path: PathBuf,
    },
    /// Print a file
    Cat {
        /// File
        path: PathBuf,
    },
}
