//! Tests of kernel features and their configuration. Each uses the feature in a child process, so that this process and
//! the machine do not change.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::namespace::{Inside, own_user_and_mounts};
use crate::process::{self, Change, ProcessHandle};
use crate::root::{Hidden, hide, lay_whiteout};
use crate::{landlock, mount, seccomp};

/// Creates user and mount namespaces with mapped ids.
pub fn user_namespace() -> io::Result<()> {
    attempt(own_user_and_mounts)
}

/// Mounts a tmpfs and a read-only copy of a directory in such namespaces.
pub fn mounts() -> io::Result<()> {
    attempt(|| {
        own_user_and_mounts()?;
        mount::make_private(mount::open_dir(Path::new("/"))?.as_fd())?;
        let memory = mount::tmpfs(0o755)?;
        rustix::fs::mkdirat(&memory, "copy", Mode::from_raw_mode(0o755))?;
        let tree = mount::clone_tree(mount::open_dir(Path::new("/proc/self"))?.as_fd())?;
        mount::set_flags(tree.as_fd(), mount::Flags { read_only: true, devices: false }, true)?;
        mount::attach(memory.as_fd(), mount::open_dir(Path::new(STAGE))?.as_fd())?;
        mount::attach(tree.as_fd(), mount::open_dir(&Path::new(STAGE).join("copy"))?.as_fd())
    })
}

/// Directory that exists everywhere and that a child may mount over in its namespace.
const STAGE: &str = "/tmp";

/// Mounts an overlay in such namespaces that hides a file and empties a directory.
pub fn overlay() -> io::Result<()> {
    attempt(|| {
        own_user_and_mounts()?;
        mount::make_private(mount::open_dir(Path::new("/"))?.as_fd())?;
        let memory = mount::tmpfs(0o755)?;
        mount::attach(memory.as_fd(), mount::open_dir(Path::new(STAGE))?.as_fd())?;
        let [lower, upper, merged] =
            ["lower", "upper", "merged"].map(|at| Path::new(STAGE).join(at));
        for dir in [&lower, &upper, &merged, &lower.join("emptied")] {
            fs::create_dir(dir)?;
        }
        for file in ["kept", "gone", "emptied/secret"] {
            fs::write(lower.join(file), "")?;
        }
        let (below, layer) = (mount::open_dir(&lower)?, mount::open_dir(&upper)?);
        lay_whiteout(layer.as_fd())?;
        hide(below.as_fd(), layer.as_fd(), Path::new("gone"), &Hidden::Nothing)?;
        hide(below.as_fd(), layer.as_fd(), Path::new("emptied"), &Hidden::Dir)?;
        mount::read_only_overlay(&upper, &lower, &merged)?;
        let shown = |name: &str| merged.join(name).try_exists();
        ensure(shown("kept")? && !shown("gone")? && !shown("emptied/secret")?)
    })
}

/// Mounts a writable overlay over `lower` in such namespaces. Its layer is a temporary directory in `place`, or in
/// memory without one.
pub fn written_overlay(lower: &Path, place: Option<&Path>) -> io::Result<()> {
    let layers = place.map(|place| place.join(format!("trial-{}", process::pid())));
    if let Some(layers) = &layers {
        fs::create_dir(layers)?;
    }
    let tried = attempt(|| {
        own_user_and_mounts()?;
        mount::make_private(mount::open_dir(Path::new("/"))?.as_fd())?;
        // Opened first, because the stage may be mounted over them.
        let base = mount::clone_tree(mount::open_dir(lower)?.as_fd())?;
        let layers = layers.as_deref().map(mount::open_dir).transpose()?;
        let layers = layers.map(|layers| mount::clone_tree(layers.as_fd())).transpose()?;
        let memory = mount::tmpfs(0o755)?;
        mount::attach(memory.as_fd(), mount::open_dir(Path::new(STAGE))?.as_fd())?;
        let at = |name: &str| Path::new(STAGE).join(name);
        for dir in ["base", "layers", "merged"] {
            fs::create_dir(at(dir))?;
        }
        mount::attach(base.as_fd(), mount::open_dir(&at("base"))?.as_fd())?;
        if let Some(layers) = layers {
            mount::attach(layers.as_fd(), mount::open_dir(&at("layers"))?.as_fd())?;
        }
        let (upper, work) = (at("layers/upper"), at("layers/work"));
        fs::create_dir(&upper)?;
        fs::create_dir(&work)?;
        mount::overlay(&[at("base")], &upper, &work, &at("merged"))?;
        fs::write(at("merged/agent-sandbox-trial"), "")?;
        ensure(upper.join("agent-sandbox-trial").try_exists()?)
    });
    let removed = layers.map_or(Ok(()), |layers| {
        // overlayfs leaves a directory with mode 000 in its work directory: `ovl_workdir_create()`.
        let locked = layers.join("work/work");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let _ = fs::set_permissions(&locked, mode);
        fs::remove_dir_all(&layers)
    });
    tried.and(removed)
}

/// Applies the system call filter and makes a call that it refuses.
pub fn seccomp() -> io::Result<()> {
    attempt(|| {
        process::no_new_privileges()?;
        seccomp::apply(seccomp::CgroupNamespaces::Refused)?;
        // SAFETY: takes a number and returns a new descriptor or an error; the child ends anyway.
        let answer = unsafe { libc::syscall(libc::SYS_userfaultfd, 0) };
        ensure(answer == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS))
    })
}

/// Applies the Landlock scope and sends a signal that it blocks.
pub fn landlock_scope() -> io::Result<()> {
    let parent = process::pid();
    attempt(|| {
        process::no_new_privileges()?;
        if !landlock::scope()? {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        // SAFETY: signal 0 is not delivered; the kernel only checks the permission: kill(2).
        let answer = unsafe { libc::kill(parent, 0) };
        ensure(answer == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM))
    })
}

/// Opens a pidfd.
pub fn pidfd() -> io::Result<()> {
    ProcessHandle::open(process::pid()).map(drop)
}

/// Enters the namespaces of a running process through a pidfd.
pub fn enter_namespaces() -> io::Result<()> {
    let parent = process::pid();
    let (mut reader, mut writer) = io::pipe()?;
    // The child's end of the pipe moves into the closure, so that the parent's copy is closed after the fork.
    let held = process::fork(move || {
        let ready = process::die_with_parent(parent)
            .and_then(|()| own_user_and_mounts())
            .and_then(|()| writer.write_all(b"+"));
        match ready {
            Ok(()) => loop {
                rustix::event::pause();
            },
            Err(error) => errno(&error),
        }
    })?;
    if reader.read(&mut [0])? == 0 {
        return result(held.wait()?);
    }
    let entered = Inside::of(held.pid()).and_then(|there| attempt(|| there.enter()));
    held.kill()?;
    held.wait()?;
    entered
}

/// Opens the FUSE device.
pub fn fuse() -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
    Ok(())
}

/// Runs `body` in a child, which exits with the error number.
fn attempt(body: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let child = process::fork(|| body().map_or_else(|error| errno(&error), |()| 0))?;
    result(child.wait()?)
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().filter(|number| (1..255).contains(number)).unwrap_or(libc::EIO)
}

fn result(change: Change) -> io::Result<()> {
    match change {
        Change::Exited(0) => Ok(()),
        Change::Exited(errno) => Err(io::Error::from_raw_os_error(errno)),
        // A seccomp filter may kill instead of returning an error.
        Change::Killed(_) | Change::Stopped(_) => Err(io::Error::from_raw_os_error(libc::EPERM)),
    }
}

/// Fails with `EIO` if a call succeeded without having its effect.
fn ensure(holds: bool) -> io::Result<()> {
    if holds { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EIO)) }
}
