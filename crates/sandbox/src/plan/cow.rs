//! Which of the writable places are kept apart, and what stands in for them.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Mount, Plan, PlanError, View, mount_below, sockets};
use sandbox_policy::config::{Config, CowEngine, CowScope, Origin};
use sandbox_policy::host::Host;
use sandbox_policy::path::Kind;

/// Writable places whose changes go into a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopyOnWrite {
    /// Who makes the layers, as far as the user said.
    pub engine: CowEngine,
    /// Why.
    pub origin: Origin,
    /// The places, parents first; none lies in another.
    pub roots: Vec<CowRoot>,
    /// What stands in for each of them. A plan that was made without layers shows the places
    /// read-only.
    #[serde(skip)]
    pub stores: Vec<Store>,
}

/// One place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CowRoot {
    /// On the host.
    pub source: PathBuf,
    /// Inside.
    pub target: PathBuf,
    /// A directory, or a single file.
    pub kind: Kind,
}

/// What stands in for a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// An overlay over the host's directory.
    Overlay(Layers),
    /// A path on the host that shows the changed state: a file system mounted there, or a copy.
    Path(PathBuf),
}

/// Where the layers of an overlay are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// A directory that holds all the others: they have to be reached through one mount.
    pub data: PathBuf,
    /// Layers that are only read, the topmost first; below `data`.
    pub lower: Vec<PathBuf>,
    /// The layer that is written; below `data`.
    pub upper: PathBuf,
    /// The kernel's own; below `data`.
    pub work: PathBuf,
}

/// Through what a writable mount is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through<'p> {
    /// The host's own files.
    Host,
    /// What stands in for the root of this number, at this path below it; empty for the root.
    Store(usize, &'p Path),
}

impl CopyOnWrite {
    /// Through what a mount is seen.
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

    /// Whether it takes mounts that bubblewrap cannot make.
    pub fn has_overlay(&self) -> bool {
        self.stores.iter().any(|store| matches!(store, Store::Overlay(_)))
    }

    /// The place that a path inside belongs to.
    pub fn root_of(&self, path: &Path) -> Option<&CowRoot> {
        self.roots.iter().find(|root| path.starts_with(&root.target))
    }
}

impl Plan {
    /// Says why an overlay cannot be mounted here, as far as that can be told, and what would help.
    pub fn overlay_remedy(&self) -> String {
        let roots = self.cow.iter().flat_map(|cow| &cow.roots);
        for root in roots {
            if let Some(point) = mount_below(&root.source) {
                return format!(
                    "`{}` is mounted in it, which an overlay cannot show: pass `--cow=agentfs`",
                    point.display()
                );
            }
        }
        "`--cow=agentfs` does without; overlays need local file systems, for the directory and for `XDG_DATA_HOME`; \
         `agent-sandbox doctor` tells whether this kernel makes them"
            .into()
    }
}

/// The places of a plan, if changes are to be kept apart at all. Inside a sandbox the outermost one decides where
/// changes go: a configuration that asks for a layer is met by that one, a flag that asks for more is refused.
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
        notes.push(format!("`cow` ({origin}) is up to the outermost sandbox"));
        return Ok(None);
    }
    if root_writable {
        return Err(PlanError::CowEverything { origin });
    }
    let mut roots: Vec<CowRoot> = Vec::new();
    for mount in mounts.iter().filter(|mount| is_kept(mount, cow.scope)) {
        if !roots.iter().any(|root| mount.target.starts_with(&root.target)) {
            let Mount { source, target, kind, .. } = mount.clone();
            roots.push(CowRoot { source, target, kind });
        }
    }
    if roots.is_empty() {
        notes.push("nothing is writable: there are no changes to keep apart".into());
    }
    Ok(Some(CopyOnWrite { engine: cow.engine, origin, roots, stores: Vec::new() }))
}

/// Repositories that the work needs elsewhere belong to the work: a worktree commits into them.
fn is_kept(mount: &Mount, scope: CowScope) -> bool {
    let work = match &mount.origin {
        Origin::Preset(name) => matches!(*name, "@base" | "@git" | "@git-strict"),
        _ => true,
    };
    mount.view == View::ReadWrite
        && (work || scope == CowScope::All)
        && mount.target != Path::new("/tmp")
        && !sockets::is_socket(&mount.source)
}
