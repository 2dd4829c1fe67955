//! What of the host a container sees: each path resolved, looked at, and held to what it was.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use sandbox_linux::file;
use sandbox_protocol::layout::{DATA, HOME, PRIVATE_DIR, RUNTIME_DIR, WORKSPACE};
use sandbox_protocol::variable::{WORKSPACE_COMMIT, WORKSPACE_PATH};
use serde::Serialize;

use super::workspace::{clones, project as workspace};
use super::{Container, ContainerError, Engine, SessionPaths};
use sandbox_core::plan::docker_places;
use sandbox_policy::config::{Access, Config, Origin};
use sandbox_policy::host::Host;

/// A bind mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bind {
    /// The path on the host; of the session's own, below its directory.
    pub source: Source,
    /// The path inside.
    pub target: PathBuf,
    /// `Rw` or `Ro`.
    pub access: Access,
    /// What the source is, so that another one in its place is not taken for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Who asked for it.
    pub origin: Origin,
}

/// Where a bind mount comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A path of the host, free of symlinks.
    Host(PathBuf),
    /// A path below the session's directory.
    Session(PathBuf),
    /// The directory of this number whose changes are kept apart, as it was changed.
    Layer(usize),
}

/// A file or directory, as the kernel tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// The device.
    pub dev: u64,
    /// The number on it.
    pub ino: u64,
}

impl Bind {
    /// Something of ours that lies beside this program.
    pub(super) fn ours(source: &Path, target: &Path, access: Access) -> Self {
        Self {
            source: Source::Host(source.into()),
            target: target.into(),
            access,
            identity: None,
            origin: Origin::Default,
        }
    }

    /// Something of the session's directory.
    pub(super) fn of_session(below: &Path, target: &Path, access: Access) -> Self {
        Self { source: Source::Session(below.into()), ..Self::ours(below, target, access) }
    }

    /// The path of the host that was asked for, if this shows it as it is.
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

/// Everything that the configuration mounts, and the project where nothing else is the workspace.
pub(super) fn project(
    host: &Host,
    config: &Config,
    engine: &Engine,
    made: &mut Container,
) -> Result<(), ContainerError> {
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
            "nothing is mounted at `{WORKSPACE}`: it is the project, `{shown}`, writable"
        ));
    }
    note_ownership(host, made);
    Ok(())
}

/// Whoever works as root should know why the agent cannot write.
fn note_ownership(host: &Host, made: &mut Container) {
    let Some((uid, _)) = made.agent.ids else { return };
    // Root's number is the caller's there.
    let uid = if made.agent.init_uid.is_some() { host.uid } else { uid };
    let others = made.mounts.iter().filter(|bind| bind.access == Access::Rw).find_map(|bind| {
        let Source::Host(path) = &bind.source else { return None };
        let about = std::fs::metadata(path).ok()?;
        (about.uid() != uid && about.mode() & 0o002 == 0).then(|| (path.clone(), about.uid()))
    });
    if let Some((path, owner)) = others {
        made.notes.push(format!(
            "`{}` belongs to user {owner}, and the agent is user {uid}: it may not be able to write there",
            path.display()
        ));
    }
}

/// The home that the first process sets up, from what and where to.
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
            why: "the image's own home is what it starts from, and the session's directory keeps it: put files into the image, or mount them by `shared_dirs`",
        });
    }
    if let Some(workspace) = &config.session.workspace {
        let text = &workspace.value;
        let path = text.path.clone().unwrap_or_default();
        // A directory of the host is cloned from where it is mounted.
        let is_local = path.starts_with('/') || path.starts_with('.') || path.starts_with('~');
        if is_local {
            let why = "a directory is mounted (`mounts` or `shared_dirs`); this clones a repository by its address";
            return Err(ContainerError::Unsupported {
                origin: workspace.origin.clone(),
                key: "workspace.path",
                why,
            });
        }
        made.env.insert(WORKSPACE_PATH.into(), path);
        if let Some(commit) = &text.commit {
            made.env.insert(WORKSPACE_COMMIT.into(), commit.clone());
        }
    }
    Ok(())
}

/// What no container ever sees, each with the reason.
struct Forbidden {
    /// Neither these, nor what lies above or below.
    around: Vec<(PathBuf, &'static str)>,
    /// Neither these nor what lies above.
    above: Vec<(PathBuf, &'static str)>,
}

impl Forbidden {
    fn of(host: &Host, engine: &Engine) -> Self {
        let mut around = Vec::new();
        let mut sockets = docker_places(host);
        sockets.push("/run/docker.sock".into());
        sockets.push("/run/podman/podman.sock".into());
        sockets.push("/run/containerd/containerd.sock".into());
        sockets.push(engine.socket.clone());
        around.extend(
            sockets.into_iter().map(|socket| {
                (socket, "whoever reaches an engine's socket is root on this machine")
            }),
        );
        for dir in [host.state_dir(), host.data_dir(), host.config_dir()].into_iter().flatten() {
            around.push((dir, "what decides about sandboxes lies there"));
        }
        for (dir, why) in [
            ("/proc", "it is this machine's own"),
            ("/sys", "it is this machine's own"),
            ("/dev", "it is this machine's own"),
        ] {
            around.push((dir.into(), why));
        }
        let mut above = vec![(PathBuf::from("/"), "that is the whole machine")];
        if let Some(home) = &host.home {
            above.push((home.clone(), "your whole home lies there, with every key in it"));
        }
        // As they are, and as they are reached: either way in is shut.
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
        // The whole machine is the better reason than what lies in it.
        let root = (path == Path::new("/")).then_some("that is the whole machine");
        root.or_else(|| above().map(|(_, why)| *why)).or_else(|| around.map(|(_, why)| *why))
    }

    /// A mount of what a path leads to now.
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
        return refused("every container has its own");
    }
    if [HOME, DATA, "/etc/passwd", "/etc/group"].iter().any(|own| target == Path::new(own)) {
        return refused("the session has its own there");
    }
    Ok(())
}

/// Two mounts at one place would hide one of them, and nobody could tell which.
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
