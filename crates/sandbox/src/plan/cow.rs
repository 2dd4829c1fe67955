//! Copy-on-write: the writable paths whose changes go into a layer, and what is mounted there instead.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Mount, Plan, PlanError, View, mount_below, sockets};
use sandbox_policy::config::{Config, CowEngine, CowScope, Origin};
use sandbox_policy::host::Host;
use sandbox_policy::path::Kind;

/// Writable paths whose changes go into a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopyOnWrite {
    /// Engine that makes the layers, as configured.
    pub engine: CowEngine,
    /// The setting that asks for it.
    pub origin: Origin,
    /// The paths, parents first. None lies below another.
    pub roots: Vec<CowRoot>,
    /// Store of each root, in the same order. A plan without stores shows the roots read-only.
    #[serde(skip)]
    pub stores: Vec<Store>,
}

/// One copy-on-write path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CowRoot {
    /// The path on the host.
    pub source: PathBuf,
    /// The path inside.
    pub target: PathBuf,
    /// A directory or a single file.
    pub kind: Kind,
}

/// Replacement that is mounted at a copy-on-write path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// An overlay over the host's directory.
    Overlay(Layers),
    /// A path on the host that shows the changed state: a file system mounted there, or a copy.
    Path(PathBuf),
}

/// Directories of an overlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// Directory that contains all the others. The upper and the work directory have to be reached through one mount.
    pub data: PathBuf,
    /// Read-only layers below `data`, topmost first.
    pub lower: Vec<PathBuf>,
    /// The layer that changes go into, below `data`.
    pub upper: PathBuf,
    /// The kernel's work directory, below `data`.
    pub work: PathBuf,
}

/// Source of a writable mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through<'p> {
    /// The host's files.
    Host,
    /// The store of the root with this index, and the path of the mount below the root; empty for the root itself.
    Store(usize, &'p Path),
}

impl CopyOnWrite {
    /// Returns the source of a mount.
    pub fn through<'m>(&self, mount: &'m Mount) -> Through<'m> {
        if !matches!(mount.view, View::ReadWrite | View::Pin) {
            return Through::Host;
        }
        let found = self.roots.iter().enumerate().find_map(|(number, root)| {
            let below = mount.target.strip_prefix(&root.target).ok()?;
            (root.source.join(below) == mount.source).then_some((number, below))
        });
        found.map_or(Through::Host, |(number, below)| Through::Store(number, below))
    }

    /// Returns true if a store is an overlay, which bubblewrap cannot mount for us.
    pub(crate) fn has_overlay(&self) -> bool {
        self.stores.iter().any(|store| matches!(store, Store::Overlay(_)))
    }

    /// Returns the root that a path inside belongs to.
    pub fn root_of(&self, path: &Path) -> Option<&CowRoot> {
        self.roots.iter().find(|root| path.starts_with(&root.target))
    }
}

impl Plan {
    /// Returns the hint for an overlay that cannot be mounted.
    pub fn overlay_remedy(&self) -> String {
        let roots = self.cow.iter().flat_map(|cow| &cow.roots);
        for root in roots {
            if let Some(point) = mount_below(&root.source) {
                return format!(
                    "pass `--cow=agentfs`: an overlay does not include other file systems, and `{}` is mounted below it",
                    point.display()
                );
            }
        }
        "pass `--cow=agentfs`, which needs no overlay; an overlay needs local file systems, for the directory and for \
         `XDG_DATA_HOME` (`agent-sandbox doctor` checks if this kernel supports it)"
            .into()
    }
}

/// Returns the copy-on-write paths of a plan, if copy-on-write is on. Inside a sandbox the outermost one decides where
/// changes go: a setting in a file is ignored with a note, a flag is refused.
pub(super) fn decide(
    host: &Host,
    config: &Config,
    root_writable: bool,
    mounts: &[Mount],
    notes: &mut Vec<String>,
) -> Result<Option<CopyOnWrite>, PlanError> {
    let cow = config.cow.value;
    if !cow.is_on() {
        return Ok(None);
    }
    let origin = config.cow.origin.clone();
    if host.inside && matches!(origin, Origin::Flag(_)) {
        return Err(PlanError::NestedCow { origin });
    }
    if host.inside {
        notes.push(format!(
            "`cow` ({origin}) has no effect here: the outermost sandbox decides about copy-on-write"
        ));
        return Ok(None);
    }
    if root_writable {
        return Err(PlanError::CowEverything { origin });
    }
    let mut roots: Vec<CowRoot> = Vec::new();
    for mount in mounts.iter().filter(|mount| is_in_scope(mount, cow.scope)) {
        if !roots.iter().any(|root| mount.target.starts_with(&root.target)) {
            let Mount { source, target, kind, .. } = mount.clone();
            roots.push(CowRoot { source, target, kind });
        }
    }
    if roots.is_empty() {
        notes.push("copy-on-write has no effect: no path is writable".into());
    }
    Ok(Some(CopyOnWrite { engine: cow.engine, origin, roots, stores: Vec::new() }))
}

/// Returns true if changes through a mount go into a layer. Repositories outside the working directory count as part of
/// the work, because commits in a worktree are written there.
fn is_in_scope(mount: &Mount, scope: CowScope) -> bool {
    let work = match &mount.origin {
        Origin::Preset(name) => matches!(*name, "@base" | "@git" | "@git-strict"),
        _ => true,
    };
    mount.view == View::ReadWrite
        && (work || scope == CowScope::All)
        && mount.target != Path::new("/tmp")
        && !sockets::is_socket(&mount.source)
}
