//! Unix sockets of the host: those that rules open, and those that must be hidden.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::{Mount, PlanError, View};
use sandbox_linux::file::{self, BeyondRoot};
use sandbox_policy::config::{Config, Sourced};
use sandbox_policy::host::Host;
use sandbox_policy::path::pattern::Pattern;
use sandbox_policy::path::resolve::Resolver;

/// Returns the sockets of `sockets = […]`, as written and resolved.
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

/// Returns the path of one socket as written, and its real path.
pub(super) fn open_one(
    socket: &Sourced<String>,
    host: &Host,
    config: &Config,
    resolver: &mut Resolver,
) -> Result<[PathBuf; 2], PlanError> {
    let refuse = |why| {
        let (origin, path) = (socket.origin.clone(), socket.value.clone());
        Err(PlanError::NoSocket { origin, path, why })
    };
    let Ok(Pattern::Exact(path)) = Pattern::parse(&socket.value, &config.cwd, host.home.as_deref())
    else {
        return refuse("must be the path of one socket");
    };
    let real = resolver.place(&path).path;
    match fs::symlink_metadata(&real) {
        Ok(metadata) if metadata.file_type().is_socket() => Ok([path, real]),
        Ok(_) => refuse("is not a socket"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => refuse("does not exist"),
        Err(_) => refuse("cannot be read"),
    }
}

pub(super) fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// Returns the Docker daemon's socket, if `docker` is on.
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
        // A daemon behind a TCP address needs the network, not a socket.
        return Ok(None);
    }
    let places = docker_places(host);
    let found = places.iter().map(|path| resolver.place(path).path).find(|path| is_socket(path));
    found.map(Some).ok_or_else(|| PlanError::NoDocker {
        origin: config.docker.origin.clone(),
        looked: places.iter().map(|path| path.display().to_string()).collect(),
    })
}

/// Returns the paths at which a Docker daemon may listen.
pub fn docker_places(host: &Host) -> Vec<PathBuf> {
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

/// Returns every bound socket that would be visible inside although no rule opens it.
pub(super) fn listening(mounts: &[Mount], opened: &[PathBuf]) -> Vec<PathBuf> {
    let Ok(table) = file::kernel_bytes("/proc/net/unix") else { return Vec::new() };
    let lines = table.split(|byte| *byte == b'\n').skip(1);
    let bound = lines.filter_map(bound_name).collect::<BTreeSet<_>>();
    let (absolute, relative): (Vec<_>, Vec<_>) =
        bound.into_iter().partition(|name| name.is_absolute());
    let mut sockets = BTreeSet::new();
    for path in absolute.iter().map(|name| name.to_path_buf()).chain(relative_sockets(&relative)) {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let Ok(dir) = file::real(dir) else { continue };
        if !is_visible(&dir.join(name), mounts) {
            continue;
        }
        if is_socket(&dir.join(name)) {
            sockets.insert(dir.join(name));
        } else {
            // The table has the name at bind(2). ssh binds its control socket to a temporary name and moves it.
            sockets.extend(sockets_in(&dir));
        }
    }
    let mut beyond_root = BeyondRoot::default();
    let wanted = |path: &PathBuf| {
        !opened.contains(path) && is_visible(path, mounts) && !beyond_root.holds(path)
    };
    sockets.into_iter().filter(wanted).collect()
}

/// Returns the path in a line of `/proc/net/unix`. Abstract names begin with `@` and have none.
fn bound_name(line: &[u8]) -> Option<&Path> {
    // Columns: Num RefCount Protocol Flags Type St Inode Path, proc(5).
    let mut rest = line;
    for _ in 0..7 {
        rest = rest.trim_ascii_start();
        rest = &rest[rest.iter().position(|byte| *byte == b' ')? + 1..];
    }
    let named = !rest.is_empty() && !rest.starts_with(b"@");
    named.then(|| Path::new(OsStr::from_bytes(rest)))
}

/// Returns the sockets that were bound to relative names. The table does not tell the directory, so each name is looked
/// up in the working directory of every process.
fn relative_sockets(names: &[&Path]) -> Vec<PathBuf> {
    if names.is_empty() {
        return Vec::new();
    }
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let dirs: BTreeSet<PathBuf> = processes
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok())
        .collect();
    let at = |dir: &PathBuf| names.iter().map(|name| dir.join(name)).collect::<Vec<_>>();
    dirs.iter().flat_map(at).filter(|path| is_socket(path)).collect()
}

fn sockets_in(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
        .map(|entry| entry.path())
}

/// Returns true if a host path is visible inside at the same path.
fn is_visible(path: &Path, mounts: &[Mount]) -> bool {
    match super::nearest(mounts, path) {
        Some(mount) => {
            mount.source == mount.target && !matches!(mount.view, View::EmptyFile | View::EmptyDir)
        }
        None => {
            super::BaseView::of(path, sandbox_policy::config::Tmp::Private) == super::BaseView::Host
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use sandbox_policy::config::Origin;
    use sandbox_policy::path::Kind;

    fn mount(path: &Path, view: View) -> Mount {
        let (source, target) = (path.to_path_buf(), path.to_path_buf());
        Mount { source, target, view, kind: Kind::Dir, create: false, origin: Origin::Default }
    }

    #[test]
    fn listening_finds_a_socket_unless_it_is_hidden_or_opened() {
        let dir = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
        let top = dir.path().canonicalize().unwrap();
        let path = top.join("with blank.sock");
        let found =
            |mounts: &[Mount], opened: &[PathBuf]| listening(mounts, opened).contains(&path);
        assert!(!found(&[], &[]), "not bound yet");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(found(&[], &[]), "on the read-only root");
        assert!(found(&[mount(&top, View::ReadWrite)], &[]), "in a writable directory");
        assert!(!found(&[mount(&top, View::EmptyDir)], &[]), "in a hidden directory");
        assert!(!found(&[mount(&path, View::EmptyFile)], &[]), "itself hidden");
        assert!(!found(&[], std::slice::from_ref(&path)), "opened by a rule");
        let elsewhere = Mount { source: "/srv".into(), ..mount(&top, View::ReadWrite) };
        assert!(!found(&[elsewhere], &[]), "something else is mounted there");
        drop(listener);
        std::fs::remove_file(&path).unwrap();
        assert!(!found(&[], &[]), "removed");
    }

    #[test]
    fn listening_finds_every_socket_when_one_name_is_not_utf8() {
        let dir = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
        let top = dir.path().canonicalize().unwrap();
        for name in [b"plain".as_slice(), b"\xff\xfe"] {
            let path = top.join(OsStr::from_bytes(name));
            let _listener = UnixListener::bind(&path).unwrap();
            assert!(listening(&[], &[]).contains(&path), "{}", path.display());
        }
        let _odd = UnixListener::bind(top.join(OsStr::from_bytes(b"\xff"))).unwrap();
        let path = top.join("beside it");
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(listening(&[], &[]).contains(&path));
    }

    #[test]
    fn is_visible_is_false_below_private_directories() {
        for (path, expected) in [
            ("/var/x.sock", true),
            ("/run/x.sock", false),
            ("/tmp/x.sock", false),
            ("/dev/log", false),
            ("/runner/x.sock", true),
        ] {
            assert_eq!(is_visible(Path::new(path), &[]), expected, "{path}");
        }
    }
}
