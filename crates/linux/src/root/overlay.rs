//! Writable overlays: a host directory below, layers of a session above.
//!
//! The kernel takes the paths of all layers in one string with its own separators, and the upper and work directory
//! must be on one mount (overlayfs.rst). So all of them are first bound to plain paths on the stage, which need no
//! escaping.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::mount::{self, Flags};

/// Directory of the stage in which overlays are made.
pub(super) const STAGE: &str = "cow";

/// Overlay with its layers on the stage, ready to be mounted.
pub(super) struct Staged {
    dir: PathBuf,
}

fn dir(number: usize) -> PathBuf {
    Path::new("/").join(STAGE).join(number.to_string())
}

/// Binds the host's directory and the layers to the stage.
pub(super) fn stage(
    old: &OwnedFd,
    number: usize,
    source: &Path,
    data: &Path,
) -> io::Result<Staged> {
    let dir = dir(number);
    rustix::fs::mkdir(&dir, Mode::from_raw_mode(0o755))?;
    for (name, path, read_only) in [("base", source, true), ("data", data, false)] {
        let place = dir.join(name);
        rustix::fs::mkdir(&place, Mode::from_raw_mode(0o755))?;
        let tree = mount::clone_tree(mount::open_beneath(old.as_fd(), path)?.as_fd())?;
        mount::set_flags(tree.as_fd(), Flags { read_only, devices: false }, true)?;
        mount::attach(tree.as_fd(), mount::open_dir(&place)?.as_fd())?;
    }
    rustix::fs::mkdir(dir.join("merged"), Mode::from_raw_mode(0o755))?;
    Ok(Staged { dir })
}

impl Staged {
    /// Mounts the overlay and returns a detached copy of it.
    pub(super) fn mount(
        &self,
        lower: &[PathBuf],
        upper: &Path,
        work: &Path,
    ) -> io::Result<OwnedFd> {
        let data = self.dir.join("data");
        let mut layers: Vec<PathBuf> = lower.iter().map(|layer| data.join(layer)).collect();
        layers.push(self.dir.join("base"));
        let merged = self.dir.join("merged");
        mount::overlay(&layers, &data.join(upper), &data.join(work), &merged)?;
        mount::clone_tree(mount::open_dir(&merged)?.as_fd())
    }
}

/// Returns a detached copy of a subtree of an overlay mounted before. Symlinks are not followed, because an earlier run
/// may have created them.
pub(super) fn part(number: usize, below: &Path) -> io::Result<OwnedFd> {
    let merged = mount::open_dir(&dir(number).join("merged"))?;
    if below.as_os_str().is_empty() {
        return Err(Errno::INVAL.into());
    }
    mount::clone_tree(mount::open_beneath(merged.as_fd(), below)?.as_fd())
}
