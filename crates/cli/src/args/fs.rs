//! Arguments of `fs`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Create, mount and inspect copy-on-write filesystems.
#[derive(Debug, Subcommand)]
pub(crate) enum Fs {
    /// Create a filesystem, empty or over a directory that is never written
    Init(Init),
    /// Mount a filesystem; without arguments, list mounts
    Mount(Mount),
    /// Unmount a filesystem
    Unmount(Unmount),
    /// List a directory
    Ls(Ls),
    /// Print a file
    Cat(Cat),
    /// List changes relative to the base
    Diff(Diff),
    /// List logged tool calls
    History(History),
    /// Check a filesystem for damage
    Fsck(Fsck),
    /// Remove leftovers, and free disk space
    Gc(Target),
    /// Create a filesystem from a directory, a tar archive or a database
    Import(Import),
    /// Export the whole tree to a directory, a tar archive or a plain database
    Export(Export),
    /// List mounts
    Ps,
}

/// Storage of a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Engine {
    /// One file, served by FUSE and compatible with AgentFS
    #[default]
    Agentfs,
    /// A directory, served by the kernel; only root can mount it
    Overlay,
}

/// Existing filesystem.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// ID for `.agentfs/ID.db`, or the path of a database
    #[arg(value_name = "ID_OR_PATH")]
    pub target: OsString,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Letters, digits, `-`, `_`, and dots between them [default: agent-TIME]
    pub id: Option<String>,
    /// Directory below the filesystem; it is never written
    #[arg(long, value_name = "DIR")]
    pub base: Option<PathBuf>,
    /// Replace an existing filesystem with this ID
    #[arg(long)]
    pub force: bool,
    /// Storage of the filesystem
    #[arg(long, value_enum, default_value_t = Engine::Agentfs)]
    pub engine: Engine,
}

#[derive(Debug, Args)]
#[command(mut_arg("allow_root", |arg| arg.conflicts_with("system")))]
pub(crate) struct Mount {
    #[command(flatten)]
    pub options: MountOptions,
    /// Fail unless the filesystem uses this engine
    #[arg(long, value_enum)]
    pub engine: Option<Engine>,
}

/// Options that `agentfs mount` has, too.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each field is an independent flag")]
pub(crate) struct MountOptions {
    /// ID for `.agentfs/ID.db`, or the path of a database
    #[arg(value_name = "ID_OR_PATH", requires = "mountpoint")]
    pub target: Option<OsString>,
    /// Directory to mount it on
    pub mountpoint: Option<PathBuf>,
    /// Unmount when the serving process ends, even if it is killed
    #[arg(short, long)]
    pub auto_unmount: bool,
    /// Give root access, too
    #[arg(long)]
    pub allow_root: bool,
    /// Give all users access, subject to file permissions
    #[arg(long)]
    pub system: bool,
    /// Stay in the foreground
    #[arg(short, long)]
    pub foreground: bool,
    /// Show UID as the owner of every file
    #[arg(long)]
    pub uid: Option<u32>,
    /// Show GID as the group of every file
    #[arg(long)]
    pub gid: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Unmount {
    /// Mountpoint, ID or path of a database
    #[arg(value_name = "MOUNTPOINT_OR_ID")]
    pub target: OsString,
    /// Detach it at once, even if it is in use
    #[arg(long)]
    pub lazy: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    #[command(flatten)]
    pub target: Target,
    /// Directory or file in the filesystem
    #[arg(default_value = "/")]
    pub path: PathBuf,
    /// List subdirectories, too
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cat {
    #[command(flatten)]
    pub target: Target,
    /// File in the filesystem
    pub path: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    pub target: Target,
    /// Print a patch for `git apply`
    #[arg(short, long, conflicts_with = "json")]
    pub patch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct History {
    #[command(flatten)]
    pub target: Target,
    /// Show the last N calls
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Fsck {
    #[command(flatten)]
    pub target: Target,
    /// Repair damage that can be repaired without data loss
    #[arg(long)]
    pub repair: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// ID of the new filesystem, or the path of its database
    #[arg(value_name = "ID_OR_PATH")]
    pub target: OsString,
    /// Directory, tar archive or database; `-` reads a tar archive from standard input
    pub source: PathBuf,
    /// Replace an existing filesystem with this ID
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub target: Target,
    /// New directory, or a file that ends in .tar or .db; `-` writes tar to standard output
    pub destination: PathBuf,
    /// Output format [default: from the name of the destination]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Skip and list entries that the format cannot store, instead of stopping
    #[arg(long)]
    pub skip: bool,
}

/// Output of `export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A directory
    Dir,
    /// A tar archive
    Tar,
    /// A database with the whole tree, in the tables of AgentFS only
    Db,
}
