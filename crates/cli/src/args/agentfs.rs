//! Command line of the tool `agentfs`, for the commands that this program supports.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use super::fs::{MountOptions, Target};

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
        #[command(flatten)]
        options: MountOptions,
        /// Mount mechanism
        #[arg(long, value_enum, default_value_t = Backend::Fuse)]
        backend: Backend,
    },
    /// Read a filesystem without mounting it
    Fs {
        #[command(flatten)]
        target: Target,
        #[command(subcommand)]
        command: Inside,
    },
    /// List changes relative to the base
    Diff {
        #[command(flatten)]
        target: Target,
    },
    /// List logged tool calls
    Timeline {
        #[command(flatten)]
        target: Target,
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
