//! The steps as data.

use std::path::PathBuf;

/// One mount, file or directory, in the order in which they are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A host path, with what is mounted below it, at a place inside.
    Bind {
        /// The path on the host, free of symlinks.
        source: PathBuf,
        /// The path inside, free of symlinks.
        target: PathBuf,
        /// Nothing below can be changed.
        read_only: bool,
        /// Device files below work.
        devices: bool,
    },
    /// An empty directory in memory. All of them together hold as much as half the memory.
    Tmpfs {
        /// Where.
        target: PathBuf,
        /// The mode of its root.
        mode: u32,
    },
    /// A directory in a file system made here.
    Dir {
        /// Where.
        target: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file in a file system made here.
    File {
        /// Where.
        target: PathBuf,
        /// Its mode.
        mode: u32,
        /// What it holds.
        content: Vec<u8>,
    },
    /// A symlink in a file system made here.
    Symlink {
        /// Where.
        target: PathBuf,
        /// What it points to.
        to: PathBuf,
    },
    /// A set of pseudo terminals of the sandbox's own.
    Terminals {
        /// Where.
        target: PathBuf,
    },
    /// The processes of the sandbox, with these paths read-only.
    Processes {
        /// Where.
        target: PathBuf,
        /// What is read-only.
        guarded: Vec<PathBuf>,
    },
    /// Something made here, read-only at a second place.
    Rebind {
        /// The path inside that was made before.
        source: PathBuf,
        /// The second place.
        target: PathBuf,
    },
    /// A read-only view of a directory in which some paths are missing or empty.
    HidingOverlay {
        /// The directory.
        dir: PathBuf,
        /// The paths below it, and what is seen of them.
        hidden: Vec<(PathBuf, Hidden)>,
    },
    /// A host directory whose changes go into a layer.
    Overlay {
        /// Which of them, for [`Step::Within`].
        number: usize,
        /// The directory on the host; it is only read.
        source: PathBuf,
        /// The place inside.
        target: PathBuf,
        /// A directory of the host that holds the layers. Its own path may be any; the paths below
        /// it are plain names.
        data: PathBuf,
        /// Layers that are only read, the topmost first; below `data`.
        lower: Vec<PathBuf>,
        /// The layer that is written; below `data`.
        upper: PathBuf,
        /// The kernel's own; below `data`.
        work: PathBuf,
    },
    /// A part of such a directory, at its own place again.
    Within {
        /// Which of them.
        number: usize,
        /// The path in it.
        below: PathBuf,
        /// The place inside.
        target: PathBuf,
    },
    /// An empty, read-only file over a file that exists.
    EmptyFile {
        /// The file.
        target: PathBuf,
    },
    /// An empty, read-only directory over one that exists. Nothing can be mounted in it: all of them are one.
    EmptyDir {
        /// The directory.
        target: PathBuf,
    },
    /// An empty, read-only file over a socket, unless it has gone meanwhile.
    Socket {
        /// The socket.
        target: PathBuf,
    },
    /// The file system in memory at this place can no longer be changed.
    Seal {
        /// Where.
        target: PathBuf,
    },
}

/// What is seen of a hidden path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hidden {
    /// An empty directory.
    Dir,
    /// An empty file.
    File,
    /// Nothing, even if the host creates it later.
    Nothing,
    /// A link to somewhere else.
    Link(PathBuf),
}

/// The root that the steps start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Whether the host's directories start out writable.
    pub writable: bool,
    /// What is taken from the host.
    pub taken: Taken,
}

/// How the host's root is taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// As one mount: quick, but nothing can be added at the top.
    Whole,
    /// Name by name, but for these, which steps make.
    Without(Vec<String>),
}

/// What a failure begins with that came from [`Step::Overlay`].
pub const OVERLAY_FAILURE: &str = "keep changes apart in ";

impl Step {
    /// What it does, for a message of failure.
    pub(super) fn describe(&self) -> String {
        match self {
            Step::Bind { source, target, .. } if source == target => {
                format!("mount {}", target.display())
            }
            Step::Bind { source, target, .. } => {
                format!("mount {} at {}", source.display(), target.display())
            }
            Step::HidingOverlay { dir, .. } => format!("mount an overlay on {}", dir.display()),
            Step::Overlay { target, .. } | Step::Within { target, .. } => {
                format!("{OVERLAY_FAILURE}{}", target.display())
            }
            Step::Tmpfs { target, .. }
            | Step::Dir { target, .. }
            | Step::File { target, .. }
            | Step::Symlink { target, .. }
            | Step::EmptyFile { target }
            | Step::EmptyDir { target }
            | Step::Socket { target }
            | Step::Terminals { target }
            | Step::Processes { target, .. }
            | Step::Rebind { target, .. }
            | Step::Seal { target } => format!("set up {}", target.display()),
        }
    }
}
