//! Build steps as data.

use std::path::PathBuf;

/// Mount, file or directory to create. Steps run in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Host path, with the mounts below it, at a path inside.
    Bind {
        /// Path on the host, free of symlinks.
        source: PathBuf,
        /// Path inside, free of symlinks.
        target: PathBuf,
        /// True to forbid changes below it.
        read_only: bool,
        /// True to allow opening device files below it.
        devices: bool,
    },
    /// Empty directory in memory. All of them together are limited to half of the memory.
    Tmpfs {
        /// Path inside.
        target: PathBuf,
        /// Mode of its root.
        mode: u32,
    },
    /// Directory in a file system made here.
    Dir {
        /// Path inside.
        target: PathBuf,
        /// Mode.
        mode: u32,
    },
    /// File in a file system made here.
    File {
        /// Path inside.
        target: PathBuf,
        /// Mode.
        mode: u32,
        /// Content.
        content: Vec<u8>,
    },
    /// Symlink in a file system made here.
    Symlink {
        /// Path inside.
        target: PathBuf,
        /// Target of the link.
        to: PathBuf,
    },
    /// devpts instance of the sandbox.
    Terminals {
        /// Path inside.
        target: PathBuf,
    },
    /// procfs of the sandbox, with some paths read-only.
    Processes {
        /// Path inside.
        target: PathBuf,
        /// Read-only paths.
        guarded: Vec<PathBuf>,
    },
    /// Read-only bind of a path made by an earlier step.
    Rebind {
        /// Path inside that was made before.
        source: PathBuf,
        /// Second path inside.
        target: PathBuf,
    },
    /// Read-only view of a directory in which some paths are missing or empty.
    HidingOverlay {
        /// Directory.
        dir: PathBuf,
        /// Paths below it, each with its replacement.
        hidden: Vec<(PathBuf, Hidden)>,
    },
    /// Host directory whose changes go to a layer.
    Overlay {
        /// Number of the overlay, for [`Step::Within`].
        number: usize,
        /// Directory on the host, which is never written.
        source: PathBuf,
        /// Path inside.
        target: PathBuf,
        /// Host directory that holds the layers. It may have any path; the paths below it are plain names.
        data: PathBuf,
        /// Read-only layers below `data`, topmost first.
        lower: Vec<PathBuf>,
        /// Writable layer below `data`.
        upper: PathBuf,
        /// Work directory of the kernel below `data`.
        work: PathBuf,
    },
    /// Subtree of such an overlay, mounted again at its path.
    Within {
        /// Number of the overlay.
        number: usize,
        /// Path in the overlay.
        below: PathBuf,
        /// Path inside.
        target: PathBuf,
    },
    /// Empty, read-only file over an existing file.
    EmptyFile {
        /// File.
        target: PathBuf,
    },
    /// Empty, read-only directory over an existing one. Nothing can be mounted in it, because all of them are one
    /// directory.
    EmptyDir {
        /// Directory.
        target: PathBuf,
    },
    /// Empty, read-only file over a socket, unless the socket is gone by then.
    Socket {
        /// Socket.
        target: PathBuf,
    },
    /// Makes the in-memory file system at a path read-only.
    Seal {
        /// Path inside.
        target: PathBuf,
    },
}

/// Replacement of a hidden path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hidden {
    /// Empty directory.
    Dir,
    /// Empty file.
    File,
    /// No entry, even if the host creates the path later.
    Nothing,
    /// Symlink to another path.
    Link(PathBuf),
}

/// Initial root, before any step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// True if the host's directories start out writable.
    pub writable: bool,
    /// Part of the host's root that is included.
    pub taken: Taken,
}

/// Extent of the host's root that a sandbox includes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// Everything, as one mount. Fast, but no steps can add entries at the top level.
    Whole,
    /// Every top-level entry except these, which steps create.
    Without(Vec<String>),
}

/// Start of the message of a failed [`Step::Overlay`].
pub const OVERLAY_FAILURE: &str = "isolate changes in ";

impl Step {
    /// Describes the step, for an error message.
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
