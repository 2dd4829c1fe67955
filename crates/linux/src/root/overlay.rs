//! Overlays that are written: a host directory below, layers of a session above.
//!
//! The kernel takes layers by path, in one line with separators of its own, and it reaches the
//! written layer and its work directory through one mount. So all of them are first put at plain
//! places of the stage, whatever their paths on the host are made of.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::mount::{self, Flags};

/// The directory of the stage that overlays are made in.
pub(super) const STAGE: &str = "cow";

/// An overlay about to be made.
pub(super) struct Staged {
    dir: PathBuf,
}

fn dir(number: usize) -> PathBuf {
    Path::new("/").join(STAGE).join(number.to_string())
}

/// Brings the host's directory and the layers to the stage.
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
    /// Makes the overlay and returns a copy of it, ready to be put in its place.
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

/// A copy of a part of an overlay that was made before. No link in it is followed: it may come
/// from an earlier run.
pub(super) fn part(number: usize, below: &Path) -> io::Result<OwnedFd> {
    let merged = mount::open_dir(&dir(number).join("merged"))?;
    if below.as_os_str().is_empty() {
        return Err(Errno::INVAL.into());
    }
    mount::clone_tree(mount::open_beneath(merged.as_fd(), below)?.as_fd())
}
