//! Unix sockets: those that are opened on purpose, and those that must not be reachable.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::{Mount, PlanError, View};
use crate::config::{Config, Sourced};
use crate::host::Host;
use crate::path::pattern::Pattern;
use crate::path::resolve::Resolver;

/// The sockets of `sockets = […]`, as written and resolved.
pub(super) fn opened(
    host: &Host,
    config: &Config,
    resolver: &mut Resolver,
) -> Result<Vec<PathBuf>, PlanError> {
    let mut sockets = Vec::new();
    for socket in &config.sockets {
        sockets.extend(open_one(socket, host, config, resolver)?);
    }
    Ok(sockets)
}

/// One of them: as written, and where it leads.
pub(super) fn open_one(
    socket: &Sourced<String>,
    host: &Host,
    config: &Config,
    resolver: &mut Resolver,
) -> Result<[PathBuf; 2], PlanError> {
    let missing =
        || PlanError::NoSocket { origin: socket.origin.clone(), path: socket.value.clone() };
    let Ok(Pattern::Exact(path)) = Pattern::parse(&socket.value, &config.cwd, host.home.as_deref())
    else {
        return Err(missing());
    };
    let real = resolver.place(&path).path;
    if is_socket(&real) { Ok([path, real]) } else { Err(missing()) }
}

pub(super) fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// The Docker daemon's socket, when it is to be shared.
pub(super) fn docker(
    host: &Host,
    config: &Config,
    resolver: &mut Resolver,
) -> Result<Option<PathBuf>, PlanError> {
    if !config.docker.value {
        return Ok(None);
    }
    if let Some(address) = host.var("DOCKER_HOST").and_then(|address| address.to_str())
        && !address.starts_with("unix://")
    {
        // A daemon on the network is reached through the network, or not at all.
        return Ok(None);
    }
    let places = docker_places(host);
    let found = places.iter().map(|path| resolver.place(path).path).find(|path| is_socket(path));
    found.map(Some).ok_or_else(|| PlanError::NoDocker {
        origin: config.docker.origin.clone(),
        looked: places.iter().map(|path| path.display().to_string()).collect(),
    })
}

fn docker_places(host: &Host) -> Vec<PathBuf> {
    let named =
        host.var("DOCKER_HOST").and_then(|address| address.to_str()?.strip_prefix("unix://"));
    if let Some(path) = named {
        return vec![path.into()];
    }
    let mut places = vec![PathBuf::from("/var/run/docker.sock")];
    if let Some(dir) = host.var("XDG_RUNTIME_DIR").map(Path::new).filter(|dir| dir.is_absolute()) {
        places.push(dir.join("docker.sock"));
    }
    places.push(format!("/run/user/{}/docker.sock", host.uid).into());
    if let Some(home) = &host.home {
        places.push(home.join(".docker/run/docker.sock"));
        places.push(home.join(".docker/desktop/docker.sock"));
    }
    places
}

/// Every socket with a name that is visible although nobody opened it.
pub(super) fn listening(mounts: &[Mount], opened: &[PathBuf]) -> Vec<PathBuf> {
    let Ok(table) = fs::read_to_string("/proc/net/unix") else { return Vec::new() };
    let mut sockets: Vec<PathBuf> = table
        .lines()
        .skip(1)
        .filter_map(|line| line.find(" /").map(|at| PathBuf::from(&line[at + 1..])))
        .filter(|path| !opened.contains(path) && is_visible(path, mounts) && is_socket(path))
        .collect();
    sockets.sort();
    sockets.dedup();
    sockets
}

/// Whether a host path is seen inside under its own name.
fn is_visible(path: &Path, mounts: &[Mount]) -> bool {
    match super::nearest(mounts, path) {
        Some(mount) => {
            mount.source == mount.target && !matches!(mount.view, View::EmptyFile | View::EmptyDir)
        }
        None => super::Ground::of(path, crate::config::Tmp::Private) == super::Ground::Host,
    }
}
