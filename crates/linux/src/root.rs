//! Builds the file system of a sandbox in a new mount namespace.
//!
//! bubblewrap could make the same mounts, but it reads the whole mount table again after each of them, resolves their
//! paths a second time and does not support writable overlays. The steps are decided before the fork; this module only
//! carries them out.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use crate::mount::{self, Flags};

mod overlay;
mod protect;
mod step;

pub use protect::{Protection, is_protected, protect_again, read_only_stdin};
pub use step::{Base, Hidden, OVERLAY_FAILURE, Step, Taken};

/// Failed step.
#[derive(Debug)]
pub struct Failure {
    /// Action that failed.
    pub what: String,
    /// Cause.
    pub error: io::Error,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

trait While<T> {
    /// Adds the action that failed to an error.
    fn during(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> While<T> for Result<T, E> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure { what: what(), error: error.into() })
    }
}

/// First whiteout of a layer. The others are hard links to it, which saves inodes.
const WHITEOUT: &str = ".agent-sandbox-whiteout";

/// Mount point of the scratch file system during the build, with the old and the new root.
const STAGE: &str = "/tmp";

/// Replaces the root of this mount namespace by one made of `base` and `steps`.
///
/// The caller must have just moved into new user and mount namespaces.
pub fn build(base: &Base, steps: &[Step]) -> Result<(), Failure> {
    // Modes apply exactly, without a umask.
    let mask = rustix::process::umask(Mode::empty());
    let mut builder = Builder::stage(&base.taken).during(|| "prepare the new root".into())?;
    builder.base(base)?;
    for step in steps {
        builder.step(step).during(|| step.describe())?;
    }
    // The old tree cannot be detached while descriptors refer to it.
    drop(builder);
    mount::replace_root(Path::new("/new")).during(|| "change to the new root".into())?;
    rustix::process::umask(mask);
    Ok(())
}

struct Builder {
    /// Tmpfs that holds all new directories and files.
    stage: OwnedFd,
    /// Number of directories in `stage` that are mounted elsewhere.
    made: usize,
    old: OwnedFd,
    new: OwnedFd,
    /// Masks for files and for directories, attached where the first of each kind was needed.
    masks: [Option<OwnedFd>; 2],
    /// Last bind mount. Further binds of the same source and flags are copied from it, because one program may replace
    /// dozens of others.
    bound: Option<(Bound, OwnedFd)>,
}

/// Empty file or directory that hides a path.
#[derive(Clone, Copy)]
enum Mask {
    File,
    Dir,
}

impl Mask {
    /// Creates the mask. It is a regular file, not `/dev/null`, because a device cannot be opened on a `nodev` mount.
    fn make(self, stage: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let name = match self {
            Self::File => Path::new("empty"),
            Self::Dir => Path::new("empty-dir"),
        };
        match self {
            Self::File => create(stage, name, 0o444, b"")?,
            Self::Dir => rustix::fs::mkdirat(stage, name, Mode::from_raw_mode(0o555))?,
        }
        mount::open_beneath(stage, name)
    }
}

/// Source and flags of a bind, which identify equal binds.
type Bound = (PathBuf, Flags);

impl Builder {
    /// Prepares the stage. Afterwards `/old` is the host's root, and `/new` is an empty one.
    fn stage(taken: &Taken) -> io::Result<Self> {
        mount::make_private(mount::open_dir(Path::new("/"))?.as_fd())?;
        let stage = mount::tmpfs(0o755)?;
        for name in ["old", "new", "hiding", overlay::STAGE] {
            rustix::fs::mkdirat(&stage, name, Mode::from_raw_mode(0o755))?;
        }
        mount::attach(stage.as_fd(), mount::open_dir(Path::new(STAGE))?.as_fd())?;
        rustix::process::chdir(STAGE)?;
        rustix::process::pivot_root(c".", c"old")?;
        rustix::process::chdir(c"/")?;
        let old = mount::open_dir(Path::new("/old"))?;
        // Opened again below, to reach the mount attached there.
        let new = mount::open_dir(Path::new("/new"))?;
        let mut builder = Self { stage, made: 0, old, new, masks: [None, None], bound: None };
        let root = match taken {
            Taken::Whole => mount::clone_tree(builder.old.as_fd())?,
            Taken::Without(_) => builder.memory(0o755)?,
        };
        mount::attach(root.as_fd(), builder.new.as_fd())?;
        builder.new = mount::open_dir(Path::new("/new"))?;
        Ok(builder)
    }

    /// Creates a detached empty directory in memory. All of them share one tmpfs, because creating and removing one for
    /// each would dominate the cost.
    fn memory(&mut self, mode: u32) -> io::Result<OwnedFd> {
        self.made += 1;
        let name = PathBuf::from(self.made.to_string());
        rustix::fs::mkdirat(&self.stage, &name, Mode::from_raw_mode(mode))?;
        mount::clone_tree(mount::open_beneath(self.stage.as_fd(), &name)?.as_fd())
    }

    fn base(&mut self, base: &Base) -> Result<(), Failure> {
        let flags = Flags { read_only: !base.writable, devices: false };
        let Taken::Without(own) = &base.taken else {
            return mount::set_flags(self.new.as_fd(), flags, true)
                .during(|| "make the root read-only".into());
        };
        let entries = std::fs::read_dir("/old").during(|| "list the root".into())?;
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            if own.iter().any(|own| name == own.as_str()) {
                continue;
            }
            let kind = entry.file_type().during(|| format!("inspect /{}", name.display()))?;
            self.top_level(&entry.path(), Path::new(&name), kind)
                .during(|| format!("mount /{}", name.display()))?;
        }
        mount::set_flags(self.new.as_fd(), flags, true)
            .during(|| "make the root read-only".into())?;
        // The root stays writable until its last mount point has been created.
        mount::unseal(self.new.as_fd()).during(|| "open the root".into())
    }

    fn top_level(&self, host: &Path, name: &Path, kind: std::fs::FileType) -> io::Result<()> {
        if kind.is_symlink() {
            return Ok(rustix::fs::symlinkat(std::fs::read_link(host)?, &self.new, name)?);
        }
        if kind.is_dir() {
            rustix::fs::mkdirat(&self.new, name, Mode::from_raw_mode(0o755))?;
        } else {
            create(self.new.as_fd(), name, 0o644, b"")?;
        }
        let tree = mount::clone_tree(mount::open_beneath(self.old.as_fd(), name)?.as_fd())?;
        mount::attach(tree.as_fd(), mount::open_beneath(self.new.as_fd(), name)?.as_fd())
    }

    fn step(&mut self, step: &Step) -> io::Result<()> {
        // Any other step may mount on top of the last bind, and that must not be copied.
        let bound = self.bound.take();
        match step {
            Step::Bind { source, target, read_only, devices } => {
                let flags = Flags { read_only: *read_only, devices: *devices };
                let tree = self.tree(source, flags, bound)?;
                mount::attach(tree.as_fd(), self.target(target)?.as_fd())?;
                self.bound = Some(((source.clone(), flags), tree));
                Ok(())
            }
            Step::Tmpfs { target, mode } => {
                mount::attach(self.memory(*mode)?.as_fd(), self.target(target)?.as_fd())
            }
            Step::Dir { target, mode } => self.make_dir(target, *mode),
            Step::File { target, mode, content } => {
                create(self.parent(target)?.as_fd(), name(target)?, *mode, content)
            }
            Step::Symlink { target, to } => {
                Ok(rustix::fs::symlinkat(to, self.parent(target)?, name(target)?)?)
            }
            Step::EmptyFile { target } => self.mask(Mask::File, target),
            Step::EmptyDir { target } => self.mask(Mask::Dir, target),
            Step::Socket { target } => match self.mask(Mask::File, target) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                done => done,
            },
            Step::Terminals { target } => {
                mount::attach(mount::devpts()?.as_fd(), self.target(target)?.as_fd())
            }
            Step::Processes { target, guarded } => {
                mount::attach(mount::proc()?.as_fd(), self.target(target)?.as_fd())?;
                guarded.iter().try_for_each(|path| self.rebind(path, path))
            }
            Step::Rebind { source, target } => self.rebind(source, target),
            Step::HidingOverlay { dir, hidden } => self.hiding_overlay(dir, hidden),
            Step::Overlay { number, source, target, data, lower, upper, work } => {
                let staged = overlay::stage(&self.old, *number, source, data)?;
                let mounted = staged.mount(lower, upper, work)?;
                mount::attach(mounted.as_fd(), self.target(target)?.as_fd())
            }
            Step::Within { number, below, target } => {
                let part = overlay::part(*number, below)?;
                mount::attach(part.as_fd(), self.target(target)?.as_fd())
            }
            Step::Seal { target } => mount::seal(self.target(target)?.as_fd()),
        }
    }

    /// Returns a detached copy of a host path with these flags.
    fn tree(
        &self,
        source: &Path,
        flags: Flags,
        last: Option<(Bound, OwnedFd)>,
    ) -> io::Result<OwnedFd> {
        match last {
            Some((bound, tree)) if bound.0 == source && bound.1 == flags => {
                mount::clone_tree(tree.as_fd())
            }
            _ => {
                let tree =
                    mount::clone_tree(mount::open_beneath(self.old.as_fd(), source)?.as_fd())?;
                mount::set_flags(tree.as_fd(), flags, true)?;
                Ok(tree)
            }
        }
    }

    fn target(&self, path: &Path) -> io::Result<OwnedFd> {
        mount::open_beneath(self.new.as_fd(), path)
    }

    fn parent(&self, path: &Path) -> io::Result<OwnedFd> {
        self.target(path.parent().unwrap_or(path))
    }

    fn make_dir(&self, target: &Path, mode: u32) -> io::Result<()> {
        match rustix::fs::mkdirat(self.parent(target)?, name(target)?, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Mounts an empty file or directory over `target`. All masks of a kind are copies of one mount with its flags.
    fn mask(&mut self, mask: Mask, target: &Path) -> io::Result<()> {
        let target = self.target(target)?;
        if let Some(first) = &self.masks[mask as usize] {
            return mount::attach(mount::clone_mount(first.as_fd())?.as_fd(), target.as_fd());
        }
        let tree = mount::clone_mount(mask.make(self.stage.as_fd())?.as_fd())?;
        mount::set_flags(tree.as_fd(), Flags { read_only: true, devices: false }, false)?;
        mount::attach(tree.as_fd(), target.as_fd())?;
        self.masks[mask as usize] = Some(tree);
        Ok(())
    }

    fn rebind(&self, source: &Path, target: &Path) -> io::Result<()> {
        let tree = mount::clone_tree(self.target(source)?.as_fd())?;
        mount::set_flags(tree.as_fd(), Flags { read_only: true, devices: false }, false)?;
        mount::attach(tree.as_fd(), self.target(target)?.as_fd())
    }

    fn hiding_overlay(&self, dir: &Path, hidden: &[(PathBuf, Hidden)]) -> io::Result<()> {
        let layer = mount::open_beneath(self.stage.as_fd(), Path::new("hiding"))?;
        let lower = mount::open_beneath(self.old.as_fd(), dir)?;
        copy_mode(lower.as_fd(), layer.as_fd(), Path::new("."))?;
        lay_whiteout(layer.as_fd())?;
        for (path, kind) in hidden {
            hide(lower.as_fd(), layer.as_fd(), path, kind)?;
        }
        let inside = |root: &str| Path::new(root).join(dir.strip_prefix("/").unwrap_or(dir));
        mount::read_only_overlay(Path::new("/hiding"), &inside("/old"), &inside("/new"))
    }
}

/// Creates the whiteout that [`hide`] links to: a character device 0/0, which needs no privilege. It also hides its own
/// name.
pub(crate) fn lay_whiteout(layer: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::fs::mknodat(layer, WHITEOUT, FileType::CharacterDevice, Mode::empty(), 0)?)
}

/// Creates the entry that hides one path, in the layer over the real directory.
pub(crate) fn hide(
    lower: BorrowedFd<'_>,
    layer: BorrowedFd<'_>,
    path: &Path,
    kind: &Hidden,
) -> io::Result<()> {
    match stand_in(layer, path, kind) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_parents(lower, layer, path)?;
            stand_in(layer, path, kind)
        }
        done => done,
    }
}

fn make_parents(lower: BorrowedFd<'_>, layer: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let mut at = PathBuf::new();
    for part in path.parent().into_iter().flat_map(Path::components) {
        at.push(part);
        match rustix::fs::mkdirat(layer, &at, Mode::from_raw_mode(0o755)) {
            Ok(()) => copy_mode(lower, layer, &at)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn stand_in(layer: BorrowedFd<'_>, path: &Path, kind: &Hidden) -> io::Result<()> {
    match kind {
        Hidden::Dir => {
            rustix::fs::mkdirat(layer, path, Mode::from_raw_mode(0o555))?;
            let dir =
                rustix::fs::openat(layer, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            Ok(rustix::fs::fsetxattr(dir, c"user.overlay.opaque", b"y", XattrFlags::empty())?)
        }
        Hidden::File => create(layer, path, 0o444, b""),
        Hidden::Link(to) => Ok(rustix::fs::symlinkat(to, layer, path)?),
        Hidden::Nothing => Ok(rustix::fs::linkat(layer, WHITEOUT, layer, path, AtFlags::empty())?),
    }
}

/// Copies the mode of a directory, because a merged directory shows the attributes of its uppermost layer.
fn copy_mode(lower: BorrowedFd<'_>, layer: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let stat = rustix::fs::statat(lower, path, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(rustix::fs::chmodat(layer, path, Mode::from_raw_mode(stat.st_mode), AtFlags::empty())?)
}

fn create(dir: BorrowedFd<'_>, path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(dir, path, flags, Mode::from_raw_mode(mode))?;
    let mut rest = content;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    Ok(())
}

fn name(path: &Path) -> io::Result<&Path> {
    let name = path.file_name().filter(|name| !name.as_bytes().is_empty());
    name.map(Path::new).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}
