//! Whether the kernel, and whoever set it up, lets something be done: by doing it, in a child that
//! is gone afterwards. This process and the machine stay as they are.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::namespace::{Inside, own_user_and_mounts};
use crate::process::{self, Change, ProcessHandle};
use crate::root::{Hidden, hide, lay_whiteout};
use crate::{landlock, mount, seccomp};

/// A user and a mount namespace of our own, with our ids mapped.
pub fn user_namespace() -> io::Result<()> {
    attempt(own_user_and_mounts)
}

/// Mounts in such namespaces: a file system in memory, and a read-only copy of a directory.
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

/// A directory that exists everywhere and that a child may cover in its own namespace.
const STAGE: &str = "/tmp";

/// An overlay in such namespaces that hides a file and empties a directory.
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

/// An overlay over `lower` in such namespaces that is written, with its layer in a new directory in
/// `place`, which goes again; in memory where there is no such place.
pub fn written_overlay(lower: &Path, place: Option<&Path>) -> io::Result<()> {
    let layers = place.map(|place| place.join(format!("trial-{}", process::pid())));
    if let Some(layers) = &layers {
        fs::create_dir(layers)?;
    }
    let tried = attempt(|| {
        own_user_and_mounts()?;
        mount::make_private(mount::open_dir(Path::new("/"))?.as_fd())?;
        // Taken first: the stage may cover them.
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
        // The kernel leaves a directory in its own that nobody may enter.
        let locked = layers.join("work/work");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let _ = fs::set_permissions(&locked, mode);
        fs::remove_dir_all(&layers)
    });
    tried.and(removed)
}

/// The system call filter, and a call that it refuses.
pub fn seccomp() -> io::Result<()> {
    attempt(|| {
        process::no_new_privileges()?;
        seccomp::apply(seccomp::CgroupNamespaces::Refused)?;
        // SAFETY: takes a number and returns a new descriptor or an error; the child ends anyway.
        let answer = unsafe { libc::syscall(libc::SYS_userfaultfd, 0) };
        ensure(answer == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS))
    })
}

/// The Landlock scope, and a signal that it keeps inside.
pub fn landlock_scope() -> io::Result<()> {
    let parent = process::pid();
    attempt(|| {
        process::no_new_privileges()?;
        if !landlock::scope()? {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        // SAFETY: signal 0 reaches nobody; the kernel only says whether it could.
        let answer = unsafe { libc::kill(parent, 0) };
        ensure(answer == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM))
    })
}

/// A handle on a process.
pub fn pidfd() -> io::Result<()> {
    ProcessHandle::open(process::pid()).map(drop)
}

/// Entering the namespaces of a running process, by a handle on it.
pub fn enter_namespaces() -> io::Result<()> {
    let parent = process::pid();
    let (mut reader, mut writer) = io::pipe()?;
    // The child's end of the pipe moves into the closure, so that ours is closed after the fork.
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

/// FUSE: the device can be opened.
pub fn fuse() -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
    Ok(())
}

/// Runs `body` in a child, which ends with the number of the error.
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
        // A filter that kills instead of refusing.
        Change::Killed(_) | Change::Stopped(_) => Err(io::Error::from_raw_os_error(libc::EPERM)),
    }
}

/// It was done, but does not do what it is for.
fn ensure(holds: bool) -> io::Result<()> {
    if holds { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EIO)) }
}
