//! Directories with a copy-on-write layer. The engine mounts an overlay over each, so writes go to the
//! session's layer.

use std::path::{Path, PathBuf};

use sandbox_protocol::layout::{PRIVATE_DIR, WORKSPACE};
use serde::Serialize;

use super::mounts::{Bind, Source};
use super::workspace::clones;
use super::{Container, ContainerError, EngineFacts};
use sandbox_core::plan::mount_below;
use sandbox_policy::config::{Access, Config, CowEngine, Origin};

/// Directory that the container sees through a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayeredDir {
    /// Directory on the host, which the container cannot change.
    pub base: PathBuf,
    /// Path inside.
    pub target: PathBuf,
}

/// Request for layers.
struct Wish<'c> {
    origin: &'c Origin,
    key: &'static str,
    engine: CowEngine,
    /// True for all writable mounts; false for the workspace only.
    everything: bool,
}

/// Adds layers to the writable directories that the configuration selects.
pub(super) fn keep_apart(
    config: &Config,
    engine: &EngineFacts,
    made: &mut Container,
) -> Result<(), ContainerError> {
    let wishes = wishes(config);
    let Some(first) = wishes.first() else { return Ok(()) };
    for wish in &wishes {
        check(wish, engine)?;
    }
    let everything = wishes.iter().any(|wish| wish.everything);
    for number in 0..made.mounts.len() {
        let bind = &made.mounts[number];
        let meant = everything || bind.target == Path::new(WORKSPACE);
        if meant && bind.access == Access::Rw && bind.asked().is_some() {
            cover(number, first.key, made)?;
        }
    }
    made.notes.push(match &made.layers[..] {
        [] => "no directory is writable, so no copy-on-write layer is needed".into(),
        layers => {
            let places: Vec<_> =
                layers.iter().map(|kept| format!("`{}`", kept.target.display())).collect();
            let places = places.join(", ");
            format!("changes in {places} go to a copy-on-write layer; to apply them: agent-sandbox apply")
        }
    });
    Ok(())
}

fn wishes(config: &Config) -> Vec<Wish<'_>> {
    let mut wishes = Vec::new();
    if config.cow.value.is_on() {
        wishes.push(Wish {
            origin: &config.cow.origin,
            key: "cow",
            engine: config.cow.value.engine,
            everything: true,
        });
    }
    // A clone contains no files of the host. PID 1 mounts its layer.
    if let Some(workspace) = config.session.workspace.as_ref().filter(|_| !clones(config))
        && let Some(engine) = workspace.value.cow.filter(|engine| *engine != CowEngine::Off)
    {
        let origin = &workspace.origin;
        wishes.push(Wish { origin, key: "workspace.cow", engine, everything: false });
    }
    wishes
}

fn check(wish: &Wish<'_>, engine: &EngineFacts) -> Result<(), ContainerError> {
    let why = if wish.engine == CowEngine::Agentfs {
        "engine `agentfs` needs a process on this machine, and a container can outlive it; use `overlay`"
    } else if engine.podman || engine.rootless {
        "only rootful Docker mounts layers whose files you can read"
    } else {
        return Ok(());
    };
    let (origin, key) = (wish.origin.clone(), wish.key);
    Err(ContainerError::Unsupported { origin, key, why })
}

/// Adds a layer to a mount. The base is also mounted where only root can reach it, because PID 1 checks its
/// identity, which the overlay hides.
fn cover(number: usize, key: &'static str, made: &mut Container) -> Result<(), ContainerError> {
    let bind = made.mounts[number].clone();
    let Some(base) = bind.asked().map(Path::to_path_buf) else { return Ok(()) };
    if !base.is_dir() {
        let why = "a writable mount of a single file cannot have a layer; mount its directory, or make it read-only";
        return Err(ContainerError::Unsupported { origin: bind.origin, key, why });
    }
    if let Some(point) = mount_below(&base) {
        return Err(ContainerError::MountBelow { origin: bind.origin, base, point });
    }
    let root = made.layers.len();
    made.mounts[number].source = Source::Layer(root);
    made.mounts[number].identity = None;
    made.layers.push(LayeredDir { base, target: bind.target.clone() });
    let below = Path::new(PRIVATE_DIR).join(format!("base-{root}"));
    made.bind(Bind { target: below, access: Access::Ro, ..bind });
    Ok(())
}
