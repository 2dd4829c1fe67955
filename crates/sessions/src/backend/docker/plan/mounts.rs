//! Host paths that a container sees. Each is resolved, checked, and recorded with its identity.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use sandbox_linux::file;
use sandbox_protocol::layout::{DATA, HOME, PRIVATE_DIR, RUNTIME_DIR, WORKSPACE};
use sandbox_protocol::variable::{WORKSPACE_COMMIT, WORKSPACE_PATH};
use serde::Serialize;

use super::workspace::{clones, project as workspace};
use super::{Container, ContainerError, EngineFacts, SessionPaths};
use sandbox_core::plan::docker_places;
use sandbox_policy::config::{Access, Config, Origin};
use sandbox_policy::host::Host;

/// Bind mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bind {
    /// Path on the host.
    pub source: Source,
    /// Path inside.
    pub target: PathBuf,
    /// `Rw` or `Ro`.
    pub access: Access,
    /// Identity of the source, so that a file that replaced it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Setting that asked for it.
    pub origin: Origin,
}

/// Source of a bind mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Path on the host, free of symlinks.
    Host(PathBuf),
    /// Path below the session's directory.
    Session(PathBuf),
    /// Layered directory with this index.
    Layer(usize),
}

/// Identity of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Device.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

impl Bind {
    /// Mounts a file that is installed next to this program.
    pub(super) fn ours(source: &Path, target: &Path, access: Access) -> Self {
        Self {
            source: Source::Host(source.into()),
            target: target.into(),
            access,
            identity: None,
            origin: Origin::Default,
        }
    }

    /// Mounts a path below the session's directory.
    pub(super) fn of_session(below: &Path, target: &Path, access: Access) -> Self {
        Self { source: Source::Session(below.into()), ..Self::ours(below, target, access) }
    }

    /// Returns the requested host path, if the mount shows it without a layer.
    pub fn asked(&self) -> Option<&Path> {
        match &self.source {
            Source::Host(path)
                if self.identity.is_some() && !self.target.starts_with(PRIVATE_DIR) =>
            {
                Some(path)
            }
            _ => None,
        }
    }
}

/// Adds the mounts of the configuration, and the project as the workspace if no other mount is.
pub(super) fn project(
    host: &Host,
    config: &Config,
    engine: &EngineFacts,
    made: &mut Container,
) -> Result<(), ContainerError> {
    if config.repo.is_some() {
        return Err(ContainerError::Unsupported {
            origin: Origin::Flag("--repo".to_owned()),
            key: "repo",
            why: "the workspace of a container is the working directory; run `up` in the root of the repository",
        });
    }
    let forbidden = Forbidden::of(host, engine);
    for mount in &config.mounts {
        let sandbox_policy::config::BindMount { host, target, access } = &mount.value;
        check_target(target, &mount.origin)?;
        made.bind(forbidden.bind(host, target, *access, &mount.origin)?);
    }
    let has_workspace =
        config.mounts.iter().any(|mount| mount.value.target == Path::new(WORKSPACE));
    if !has_workspace && !clones(config) {
        let origin = Origin::Default;
        made.bind(forbidden.bind(workspace(config), Path::new(WORKSPACE), Access::Rw, &origin)?);
        let shown = config.cwd.display();
        made.notes.push(format!(
            "`{WORKSPACE}` is the project, `{shown}`, writable (no other mount is configured there)"
        ));
    }
    note_ownership(host, made);
    Ok(())
}

/// Adds a note if the agent may not be able to write to a writable mount.
fn note_ownership(host: &Host, made: &mut Container) {
    let Some((uid, _)) = made.agent.ids else { return };
    // There, uid 0 is the caller.
    let uid = if made.agent.init_uid.is_some() { host.uid } else { uid };
    let others = made.mounts.iter().filter(|bind| bind.access == Access::Rw).find_map(|bind| {
        let Source::Host(path) = &bind.source else { return None };
        let about = std::fs::metadata(path).ok()?;
        (about.uid() != uid && about.mode() & 0o002 == 0).then(|| (path.clone(), about.uid()))
    });
    if let Some((path, owner)) = others {
        made.notes.push(format!(
            "`{}` belongs to uid {owner}, but the agent has uid {uid} and may not be able to write there",
            path.display()
        ));
    }
}

/// Sets the variables for a home that PID 1 sets up.
pub(super) fn home(
    config: &Config,
    _: &SessionPaths<'_>,
    made: &mut Container,
) -> Result<(), ContainerError> {
    if let Some(home) = &config.session.home
        && home.value.template.is_some() | home.value.data.is_some()
    {
        return Err(ContainerError::Unsupported {
            origin: home.origin.clone(),
            key: "home",
            why: "the home starts as the image's and is stored in the session's directory; add files to the image, or mount them with `shared_dirs`",
        });
    }
    if let Some(workspace) = &config.session.workspace {
        let text = &workspace.value;
        let path = text.path.as_ref().map_or("", |path| path.as_str());
        // A directory of the host would be cloned from its mount.
        let is_local = path.starts_with('/') || path.starts_with('.') || path.starts_with('~');
        if is_local {
            let why = "it takes the URL of a repository to clone; mount a directory with `mounts` or `shared_dirs`";
            return Err(ContainerError::Unsupported {
                origin: workspace.origin.clone(),
                key: "workspace.path",
                why,
            });
        }
        made.env.insert(WORKSPACE_PATH.into(), path.to_owned());
        if let Some(commit) = &text.commit {
            made.env.insert(WORKSPACE_COMMIT.into(), commit.as_str().to_owned());
        }
    }
    Ok(())
}

/// Host paths that no container can mount, with reasons.
struct Forbidden {
    /// These paths, and everything above and below them.
    around: Vec<(PathBuf, &'static str)>,
    /// These paths, and everything above them.
    above: Vec<(PathBuf, &'static str)>,
}

impl Forbidden {
    fn of(host: &Host, engine: &EngineFacts) -> Self {
        let mut around = Vec::new();
        let mut sockets = docker_places(host);
        sockets.push("/run/docker.sock".into());
        sockets.push("/run/podman/podman.sock".into());
        sockets.push("/run/containerd/containerd.sock".into());
        sockets.push(engine.socket.clone());
        around.extend(sockets.into_iter().map(|socket| {
            (socket, "access to an engine's socket is equivalent to root on this machine")
        }));
        for dir in [host.state_dir(), host.data_dir(), host.config_dir()].into_iter().flatten() {
            around.push((dir, "it contains settings or data of agent-sandbox"));
        }
        for (dir, why) in [
            ("/proc", "it belongs to this machine"),
            ("/sys", "it belongs to this machine"),
            ("/dev", "it belongs to this machine"),
        ] {
            around.push((dir.into(), why));
        }
        let mut above = vec![(PathBuf::from("/"), "it contains the whole file system")];
        if let Some(home) = &host.home {
            above.push((home.clone(), "it contains your whole home, with all keys"));
        }
        // Both the paths as given and the resolved ones are forbidden.
        let real = |list: &[(PathBuf, &'static str)]| -> Vec<_> {
            list.iter().filter_map(|(path, why)| Some((file::real(path).ok()?, *why))).collect()
        };
        around.extend(real(&around));
        above.extend(real(&above));
        Self { around, above }
    }

    fn why(&self, path: &Path) -> Option<&'static str> {
        let around = self.around.iter().find(|(forbidden, _)| {
            !forbidden.as_os_str().is_empty()
                && (forbidden.starts_with(path) || path.starts_with(forbidden))
        });
        let above = || self.above.iter().find(|(forbidden, _)| forbidden.starts_with(path));
        // For the root directory, this reason is better than that of a path in it.
        let root = (path == Path::new("/")).then_some("it contains the whole file system");
        root.or_else(|| above().map(|(_, why)| *why)).or_else(|| around.map(|(_, why)| *why))
    }

    /// Returns a mount of the file or directory that a path currently resolves to.
    fn bind(
        &self,
        host: &Path,
        target: &Path,
        access: Access,
        origin: &Origin,
    ) -> Result<Bind, ContainerError> {
        let missing = |source| ContainerError::Missing {
            origin: origin.clone(),
            host: host.to_owned(),
            source,
        };
        let forbidden = |host: &Path, why| {
            Err(ContainerError::Forbidden { origin: origin.clone(), host: host.to_owned(), why })
        };
        let real = file::real(host).map_err(missing)?;
        if let Some(why) = self.why(&real).or_else(|| self.why(host)) {
            return forbidden(&real, why);
        }
        let about = std::fs::symlink_metadata(&real).map_err(missing)?;
        let kind = about.file_type();
        if kind.is_socket() || kind.is_fifo() || kind.is_block_device() || kind.is_char_device() {
            return forbidden(&real, "it is neither a file nor a directory");
        }
        Ok(Bind {
            source: Source::Host(real),
            target: target.to_owned(),
            access,
            identity: Some(Identity { dev: about.dev(), ino: about.ino() }),
            origin: origin.clone(),
        })
    }
}

fn check_target(target: &Path, origin: &Origin) -> Result<(), ContainerError> {
    let refused = |why| {
        Err(ContainerError::Target { origin: origin.clone(), target: target.to_owned(), why })
    };
    let own = [RUNTIME_DIR, PRIVATE_DIR, "/proc", "/sys", "/dev"];
    if own.iter().any(|own| target.starts_with(own) || Path::new(own).starts_with(target)) {
        return refused("every container has a private one");
    }
    if [HOME, DATA, "/etc/passwd", "/etc/group"].iter().any(|own| target == Path::new(own)) {
        return refused("the session mounts its own file or directory there");
    }
    Ok(())
}

/// Refuses two mounts on one path: one would hide the other, in an order that the engine decides.
pub(super) fn check_targets(sorted: &[Bind]) -> Result<(), ContainerError> {
    let twice = sorted.windows(2).find(|pair| pair[0].target == pair[1].target);
    twice.map_or(Ok(()), |pair| {
        Err(ContainerError::Twice {
            target: pair[0].target.clone(),
            first: pair[0].origin.clone(),
            second: pair[1].origin.clone(),
        })
    })
}
