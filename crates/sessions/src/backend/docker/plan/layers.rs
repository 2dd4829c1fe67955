//! Directories whose changes are kept apart: the engine mounts an overlay over each, and what is written goes
//! into the session's layer.

use std::path::{Path, PathBuf};

use sandbox_protocol::layout::{PRIVATE_DIR, WORKSPACE};
use serde::Serialize;

use super::mounts::{Bind, Source};
use super::workspace::clones;
use super::{Container, ContainerError, Engine};
use sandbox_core::plan::mount_below;
use sandbox_policy::config::{Access, Config, CowEngine, Origin};

/// A directory that is seen through a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayeredDir {
    /// The directory on the host, which nothing inside changes.
    pub base: PathBuf,
    /// Where it is seen.
    pub target: PathBuf,
}

/// A wish to keep changes apart.
struct Wish<'c> {
    origin: &'c Origin,
    key: &'static str,
    engine: CowEngine,
    /// Of every writable mount, or of the workspace alone.
    everything: bool,
}

/// Puts layers over the writable directories that the configuration means.
pub(super) fn keep_apart(
    config: &Config,
    engine: &Engine,
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
        [] => "nothing is writable: there are no changes to keep apart".into(),
        layers => {
            let places: Vec<_> =
                layers.iter().map(|kept| format!("`{}`", kept.target.display())).collect();
            let places = places.join(", ");
            format!("changes in {places} are kept apart: `agent-sandbox apply` takes them over")
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
    // In a clone nothing is the host's: what it keeps is the first process's work.
    if let Some(workspace) = config.session.workspace.as_ref().filter(|_| !clones(config))
        && let Some(engine) = workspace.value.cow.filter(|engine| *engine != CowEngine::Off)
    {
        let origin = &workspace.origin;
        wishes.push(Wish { origin, key: "workspace.cow", engine, everything: false });
    }
    wishes
}

fn check(wish: &Wish<'_>, engine: &Engine) -> Result<(), ContainerError> {
    let why = if wish.engine == CowEngine::Agentfs {
        "the engine `agentfs` is a process on this machine, which a container outlives; `overlay` needs none"
    } else if engine.podman || engine.rootless {
        "only Docker as root mounts a layer whose files you can read"
    } else {
        return Ok(());
    };
    let (origin, key) = (wish.origin.clone(), wish.key);
    Err(ContainerError::Unsupported { origin, key, why })
}

/// Puts a layer over one mount. The first process looks at what lies below it, where only root can go: the
/// overlay itself does not tell.
fn cover(number: usize, key: &'static str, made: &mut Container) -> Result<(), ContainerError> {
    let bind = made.mounts[number].clone();
    let Some(base) = bind.asked().map(Path::to_path_buf) else { return Ok(()) };
    if !base.is_dir() {
        let why = "a single file that is mounted writable cannot be kept apart: mount its directory, or make it read-only";
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
