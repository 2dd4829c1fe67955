//! `fs`: copy-on-write filesystems by themselves.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Copy-on-write filesystems in a file.
#[derive(Debug, Subcommand)]
pub(crate) enum Fs {
    /// Make a filesystem, over a directory that stays as it is or over nothing
    Init(Init),
    /// Mount one; without arguments, list what is mounted
    Mount(Mount),
    /// Unmount one
    Unmount(Unmount),
    /// List a directory
    Ls(Ls),
    /// Print a file
    Cat(Cat),
    /// List what differs from the base
    Diff(Diff),
    /// List what tools were called
    History(History),
    /// Look for damage
    Fsck(Fsck),
    /// Take in and throw away what is left over, and give space back
    Gc(Target),
    /// Make a filesystem from a directory, a tar archive or another database
    Import(Import),
    /// Write the whole tree to a directory, a tar archive or a plain database
    Export(Export),
    /// List what is mounted
    Ps,
}

/// How a filesystem is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Engine {
    /// One file, served by FUSE; AgentFS opens it too
    #[default]
    Agentfs,
    /// A directory, served by the kernel; mounting it takes root
    Overlay,
}

/// A filesystem that is there.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// `.agentfs/ID.db` here, or the path of a database
    #[arg(value_name = "ID_OR_PATH")]
    pub target: OsString,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Letters, digits, `-`, `_` and dots inside [default: agent-TIME]
    pub id: Option<String>,
    /// The directory that the filesystem stands on; it is never written
    #[arg(long, value_name = "DIR")]
    pub base: Option<PathBuf>,
    /// Throw away what goes by this ID
    #[arg(long)]
    pub force: bool,
    /// How the filesystem is kept
    #[arg(long, value_enum, default_value_t = Engine::Agentfs)]
    pub engine: Engine,
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Mount {
    /// `.agentfs/ID.db` here, or the path of a database
    #[arg(value_name = "ID_OR_PATH", requires = "mountpoint")]
    pub target: Option<OsString>,
    /// Where; a directory
    pub mountpoint: Option<PathBuf>,
    /// Unmount when the process that serves it ends, however it ends
    #[arg(short, long)]
    pub auto_unmount: bool,
    /// Let root in, too
    #[arg(long, conflicts_with = "system")]
    pub allow_root: bool,
    /// Let all users in; permissions decide
    #[arg(long)]
    pub system: bool,
    /// Stay in the foreground
    #[arg(short, long)]
    pub foreground: bool,
    /// Show this user as the owner of every file
    #[arg(long)]
    pub uid: Option<u32>,
    /// Show this group as the group of every file
    #[arg(long)]
    pub gid: Option<u32>,
    /// Refuse unless the filesystem is kept this way
    #[arg(long, value_enum)]
    pub engine: Option<Engine>,
}

#[derive(Debug, Args)]
pub(crate) struct Unmount {
    /// A mountpoint, an ID or the path of a database
    #[arg(value_name = "MOUNTPOINT_OR_ID")]
    pub target: OsString,
    /// Take it out of sight at once, even if it is in use
    #[arg(long)]
    pub lazy: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    #[command(flatten)]
    pub target: Target,
    /// A directory in it, or a file
    #[arg(default_value = "/")]
    pub path: PathBuf,
    /// Everything below, too
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cat {
    #[command(flatten)]
    pub target: Target,
    /// A file in it
    pub path: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    pub target: Target,
    /// Print a patch that `git apply` takes
    #[arg(short, long, conflicts_with = "json")]
    pub patch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct History {
    #[command(flatten)]
    pub target: Target,
    /// How many, the last ones
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Fsck {
    #[command(flatten)]
    pub target: Target,
    /// Mend what can be mended without losing anything
    #[arg(long)]
    pub repair: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The new filesystem: an ID, or the path of the database to make
    #[arg(value_name = "ID_OR_PATH")]
    pub target: OsString,
    /// A directory, a tar archive or a database; `-` is a tar archive on standard input
    pub source: PathBuf,
    /// Throw away what goes by this ID
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub target: Target,
    /// Where to: a new directory, or a file that ends in .tar or .db; `-` is tar on standard output
    pub destination: PathBuf,
    /// What to write, if the name does not say so
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Leave out what the format cannot hold, and name it, instead of stopping
    #[arg(long)]
    pub skip: bool,
}

/// What `export` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A directory
    Dir,
    /// A tar archive
    Tar,
    /// A database that holds the whole tree, in the tables of AgentFS only
    Db,
}
