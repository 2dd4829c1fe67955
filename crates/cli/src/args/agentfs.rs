//! The command line of the tool `agentfs`, as far as this program does the same.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// What was typed after `agentfs`.
#[derive(Debug, Parser)]
#[command(
    name = "agentfs",
    version,
    about = "The command lines of AgentFS, carried out by agent-sandbox",
    max_term_width = 100
)]
pub(crate) struct AgentFs {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a filesystem
    Init {
        /// Letters, digits, `-` and `_` [default: agent-TIME]
        id: Option<String>,
        /// Throw away what goes by this ID
        #[arg(long)]
        force: bool,
        /// The directory that the filesystem stands on
        #[arg(long)]
        base: Option<PathBuf>,
    },
    /// Mount a filesystem; without arguments, list what is mounted
    Mount {
        /// An ID or the path of a database
        #[arg(requires = "mountpoint")]
        id_or_path: Option<OsString>,
        /// Where
        mountpoint: Option<PathBuf>,
        /// Unmount when the process that serves it ends
        #[arg(short, long)]
        auto_unmount: bool,
        /// Let root in, too
        #[arg(long)]
        allow_root: bool,
        /// Let all users in
        #[arg(long)]
        system: bool,
        /// Stay in the foreground
        #[arg(short, long)]
        foreground: bool,
        /// Show this user as the owner of every file
        #[arg(long)]
        uid: Option<u32>,
        /// Show this group as the group of every file
        #[arg(long)]
        gid: Option<u32>,
        /// By which means
        #[arg(long, value_enum, default_value_t = Backend::Fuse)]
        backend: Backend,
    },
    /// Look into a filesystem without mounting it
    Fs {
        /// An ID or the path of a database
        id_or_path: OsString,
        #[command(subcommand)]
        command: Inside,
    },
    /// List what differs from the base
    Diff {
        /// An ID or the path of a database
        id_or_path: OsString,
    },
    /// List what tools were called
    Timeline {
        /// An ID or the path of a database
        id_or_path: OsString,
        /// How many, the last ones
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// How to print them
        #[arg(long, default_value = "table", value_parser = ["table", "json"])]
        format: String,
    },
    /// List what is mounted
    Ps,
    /// Anything else.
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
        /// From where
        #[arg(default_value = "/")]
        path: PathBuf,
    },
    /// Print a file
    Cat {
        /// The file
        path: PathBuf,
    },
}
