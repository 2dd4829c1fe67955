//! Facts about this machine, found by testing it.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use sandbox_linux::{landlock, probe};

use super::engine;
use super::trial::{self, Trial};
use crate::plan::docker_places;
use crate::render::find::{Bwrap, FindError, Version, answer, find};
use crate::run::{Rendering, renderings};
use sandbox_policy::host::Host;

/// Success, or the error number.
pub(super) type Tried = Result<(), i32>;

/// Input of all checks.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) kernel: String,
    pub(super) user_namespace: Tried,
    pub(super) mounts: Tried,
    pub(super) overlay: Tried,
    /// A writable overlay over the working directory.
    pub(super) written_overlay: Tried,
    pub(super) seccomp: Tried,
    pub(super) pidfd: Tried,
    pub(super) enter: Tried,
    pub(super) fuse: Tried,
    pub(super) fuse_helper: Option<PathBuf>,
    pub(super) fuse_others: bool,
    pub(super) landlock_abi: i64,
    pub(super) landlock_scope: Tried,
    pub(super) bwrap: Result<Found, FindError>,
    pub(super) trials: Vec<(Rendering, Trial)>,
    pub(super) settings: Settings,
    /// Sign that this is a container.
    pub(super) container: Option<&'static str>,
    pub(super) docker: Option<(PathBuf, Tried)>,
    pub(super) docker_host: Option<String>,
    /// Version of runc that the engine reports.
    pub(super) runc: Option<String>,
    pub(super) git: Option<PathBuf>,
    pub(super) root: bool,
    pub(super) inside: bool,
}

/// A bubblewrap program, its version and its help text.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) bwrap: Bwrap,
    pub(super) version: Option<Version>,
    pub(super) help: String,
}

/// Kernel settings; `None` where the kernel has no such setting.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) apparmor_restricts: Option<u64>,
    pub(super) userns_clone: Option<u64>,
    pub(super) max_user_namespaces: Option<u64>,
    pub(super) legacy_tiocsti: Option<u64>,
    /// True when this process runs under a system call filter.
    pub(super) filtered: bool,
}

impl Facts {
    pub(super) fn gather(host: &Host) -> Self {
        let bwrap = find(host, None).map(|bwrap| Found {
            version: Version::of(&bwrap.path),
            help: answer(&bwrap.path, "--help").unwrap_or_default(),
            bwrap,
        });
        let docker = docker(host);
        let answers = docker.as_ref().filter(|(_, answer)| answer.is_ok());
        let runc = answers.and_then(|(socket, _)| engine::runc(socket));
        let trials = bwrap.as_ref().map(|found| trials(host, &found.bwrap.path));
        let trials = trials.unwrap_or_default();
        Self {
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            user_namespace: tried(probe::user_namespace()),
            mounts: tried(probe::mounts()),
            overlay: tried(probe::overlay()),
            written_overlay: written_overlay(host),
            seccomp: tried(probe::seccomp()),
            pidfd: tried(probe::pidfd()),
            enter: tried(probe::enter_namespaces()),
            fuse: tried(probe::fuse()),
            fuse_helper: program(host, "fusermount3"),
            fuse_others: fs::read_to_string("/etc/fuse.conf")
                .is_ok_and(|text| text.lines().any(|line| line.trim() == "user_allow_other")),
            landlock_abi: landlock::abi(),
            landlock_scope: tried(probe::landlock_scope()),
            bwrap,
            trials,
            settings: Settings::read(),
            container: container(host),
            docker,
            docker_host: docker_host(host),
            runc,
            git: program(host, "git"),
            root: host.uid == 0,
            inside: host.inside,
        }
    }

    /// Returns the rendering that a run here uses, if one works.
    pub(super) fn rendering(&self) -> Option<Rendering> {
        self.trials.last().filter(|(_, trial)| *trial == Trial::Works).map(|(how, _)| *how)
    }
}

/// Tries renderings as a run does: the next one only when preparing the sandbox failed.
fn trials(host: &Host, bwrap: &Path) -> Vec<(Rendering, Trial)> {
    let mut trials = Vec::new();
    for rendering in renderings(host) {
        let trial = trial::run(host, bwrap, rendering);
        let prepared = !matches!(trial, Trial::NotPrepared(_));
        trials.push((rendering, trial));
        if prepared {
            break;
        }
    }
    trials
}

/// Tries an overlay over the working directory. Its layer is in the directory of sessions, if that exists.
fn written_overlay(host: &Host) -> Tried {
    let cwd = host.cwd.as_deref().unwrap_or(Path::new("/"));
    let data = host.data_dir().filter(|data| data.is_dir() && !data.starts_with(cwd));
    tried(probe::written_overlay(cwd, data.as_deref()))
}

fn tried(result: io::Result<()>) -> Tried {
    // Input/output error, for an error without a number.
    const EIO: i32 = 5;
    result.map_err(|error| error.raw_os_error().unwrap_or(EIO))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

impl Settings {
    fn read() -> Self {
        let number = |name: &str| read(&format!("/proc/sys/{name}"))?.parse().ok();
        let status = read("/proc/self/status").unwrap_or_default();
        let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        Self {
            apparmor_restricts: number("kernel/apparmor_restrict_unprivileged_userns"),
            userns_clone: number("kernel/unprivileged_userns_clone"),
            max_user_namespaces: number("user/max_user_namespaces"),
            legacy_tiocsti: number("dev/tty/legacy_tiocsti"),
            filtered: mode.is_some_and(|mode| mode.trim() == "2"),
        }
    }
}

fn container(host: &Host) -> Option<&'static str> {
    let there = |path: &str| Path::new(path).try_exists().unwrap_or(false);
    match () {
        () if there("/.dockerenv") => Some("/.dockerenv exists"),
        () if there("/run/.containerenv") => Some("/run/.containerenv exists"),
        () if there("/run/systemd/container") => Some("/run/systemd/container exists"),
        () if host.var("container").is_some() => Some("`container` is set"),
        () => None,
    }
}

fn docker(host: &Host) -> Option<(PathBuf, Tried)> {
    if docker_host(host).is_some() {
        return None;
    }
    let sockets = docker_places(host).into_iter().filter(|path| path.try_exists().unwrap_or(true));
    let mut answers: Vec<_> =
        sockets.map(|path| (tried(UnixStream::connect(&path).map(drop)), path)).collect();
    answers.sort_by_key(|(answer, _)| answer.is_err());
    answers.into_iter().next().map(|(answer, path)| (path, answer))
}

/// Returns the address of a daemon that is not reached through a Unix socket.
fn docker_host(host: &Host) -> Option<String> {
    let address = host.var("DOCKER_HOST")?.to_str()?;
    (!address.starts_with("unix://")).then(|| address.to_owned())
}

fn program(host: &Host, name: &str) -> Option<PathBuf> {
    host.search_path().into_iter().map(|dir| dir.join(name)).find(|path| path.is_file())
}
