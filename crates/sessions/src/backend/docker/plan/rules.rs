//! Local policy inside a container: path rules below mounts, and command rules.

use std::path::{Path, PathBuf};

use sandbox_protocol::layout::{RUNTIME_BINARY, RUNTIME_DIR, runtime};

use super::layers::LayeredDir;
use super::mounts::{Bind, Source};
use super::{Container, ContainerError, OwnDir, OwnFile, OwnLink, ProxyAccess, SessionPaths};
use sandbox_core::plan::{Mount, Plan, PlanError, View, plan_config, withheld};
use sandbox_core::wrapper;
use sandbox_policy::config::{Access, Config, Cow, Network, Origin, PathRule, Sourced, Tmp};
use sandbox_policy::host::Host;
use sandbox_policy::network::RESOLVER_CONFIGURATION;
use sandbox_policy::path::{Kind, literal};

/// Turns rules below mounted directories into additional mounts, which are read-only or empty.
pub(super) fn below(
    host: &Host,
    config: &Config,
    made: &mut Container,
) -> Result<(), ContainerError> {
    let roots: Vec<(PathBuf, Bind)> =
        made.mounts.iter().filter_map(|bind| root(bind, &made.layers)).collect();
    let plan = local(host, config, &roots)?;
    check_kept(&plan, &roots)?;
    let (mut file, mut dir) = (false, false);
    let mut nested = Vec::new();
    for mount in &plan.mounts {
        // The nearest root, because roots may be nested.
        let near = roots
            .iter()
            .filter(|(root, _)| mount.target.starts_with(root) && mount.target != *root);
        for (root, bind) in near {
            let Ok(rest) = mount.target.strip_prefix(root) else { continue };
            let Some(made) = translate(mount, bind, rest) else { continue };
            file |= made.source == Source::Session("empty/file".into());
            dir |= made.source == Source::Session("empty/dir".into());
            nested.push(made);
        }
    }
    if file {
        made.files.push(OwnFile { path: "empty/file".into(), text: String::new(), mode: 0o444 });
    }
    if dir {
        made.dirs.push(OwnDir { path: "empty/dir".into(), mode: 0o555, agents: false });
    }
    let taken: Vec<PathBuf> = made.mounts.iter().map(|bind| bind.target.clone()).collect();
    nested.retain(|bind| !taken.contains(&bind.target));
    nested.sort_by(|one, other| one.target.cmp(&other.target));
    nested.dedup_by(|one, other| one.target == other.target);
    made.mounts.extend(nested);
    Ok(())
}

/// Returns the host directory of a requested mount, with or without a layer.
fn root(bind: &Bind, layers: &[LayeredDir]) -> Option<(PathBuf, Bind)> {
    let path = match &bind.source {
        Source::Layer(number) => &layers.get(*number)?.base,
        _ => bind.asked()?,
    };
    Some((path.to_path_buf(), bind.clone()))
}

/// Plans the local sandbox, with the mounted directories as working directories.
fn local(host: &Host, config: &Config, roots: &[(PathBuf, Bind)]) -> Result<Plan, PlanError> {
    let mut config = config.clone();
    let host = Host { inside: false, ..host.clone() };
    config.session.network = None;
    config.network.value = Network::Off;
    config.paths.extend(withheld::rules(&host, &config));
    config.secrets.clear();
    config.mounts.clear();
    config.sockets.clear();
    config.commands.clear();
    config.cow.value = Cow::OFF;
    config.docker.value = false;
    config.tmp.value = Tmp::Host;
    for (path, bind) in roots {
        let Some(pattern) = path.to_str().map(literal) else { continue };
        let rule = PathRule::new(bind.access, pattern);
        config.paths.push(Sourced::new(rule, bind.origin.clone()));
    }
    plan_config(&host, config, Vec::new())
}

/// Refuses a writable path below a read-only one in a layer. A layer is mounted as a whole, so that path would be a mount
/// of the host's files.
fn check_kept(plan: &Plan, roots: &[(PathBuf, Bind)]) -> Result<(), ContainerError> {
    let kept = roots.iter().filter(|(_, bind)| matches!(bind.source, Source::Layer(_)));
    for (root, _) in kept {
        let inside = |mount: &&Mount| mount.target.starts_with(root) && mount.target != *root;
        let shut = |mount: &Mount| matches!(mount.view, View::ReadOnly | View::EmptyDir);
        let again = plan.mounts.iter().filter(inside).find(|mount| {
            let around = |other: &&Mount| inside(other) && mount.target.starts_with(&other.target);
            mount.view == View::ReadWrite
                && plan.mounts.iter().any(|other| around(&other) && shut(other))
        });
        if let Some(mount) = again {
            return Err(ContainerError::Unsupported {
                origin: mount.origin.clone(),
                key: "cow",
                why: "a writable path below a read-only one cannot have a layer",
            });
        }
    }
    Ok(())
}

fn translate(mount: &Mount, root: &Bind, rest: &Path) -> Option<Bind> {
    let bind = |source, access| Bind {
        source,
        target: root.target.join(rest),
        access,
        identity: None,
        origin: mount.origin.clone(),
    };
    let same = Source::Host(mount.source.clone());
    match mount.view {
        View::Device => None,
        // Below a read-only root, nothing becomes writable, and everything else is already read-only.
        View::ReadWrite | View::Pin | View::ReadOnly if root.access == Access::Ro => None,
        // Renames in an overlay do not move directories of its base, and everything else is already writable.
        View::ReadWrite | View::Pin if matches!(root.source, Source::Layer(_)) => None,
        View::ReadWrite | View::Pin => Some(bind(same, Access::Rw)),
        View::ReadOnly => Some(bind(same, Access::Ro)),
        View::EmptyFile => Some(bind(Source::Session("empty/file".into()), Access::Ro)),
        View::EmptyDir => Some(bind(Source::Session("empty/dir".into()), Access::Ro)),
    }
    .filter(|_| matches!(mount.kind, Kind::Dir | Kind::File))
}

/// Adds command rules: our program comes first on the search path under each name that has a rule.
pub(super) fn commands(
    host: &Host,
    config: &Config,
    session: &SessionPaths<'_>,
    made: &mut Container,
) -> Result<(), ContainerError> {
    if session.binaries.sandbox.is_none() || config.commands.is_empty() {
        return Ok(());
    }
    // The rules apply to programs of the image, not of this machine.
    let mut elsewhere = host.clone();
    elsewhere.env.insert("PATH".into(), "/nonexistent".into());
    elsewhere.inside = false;
    let ruled = wrapper::resolve(&elsewhere, config, None).map_err(PlanError::from)?;
    for dir in [runtime::LINKS, runtime::WRAPPERS, runtime::PRESETS] {
        let path = Path::new("runtime").join(dir);
        made.dirs.push(OwnDir { path: path.clone(), mode: 0o755, agents: false });
        made.bind(Bind::of_session(&path, &Path::new(RUNTIME_DIR).join(dir), Access::Ro));
    }
    for file in &ruled.files {
        made.links.push(OwnLink {
            path: Path::new("runtime").join(runtime::LINKS).join(&file.name),
            to: RUNTIME_BINARY.into(),
        });
        made.files.push(OwnFile {
            path: Path::new("runtime").join(file.path()),
            text: String::from_utf8_lossy(&file.content).into_owned(),
            mode: file.mode,
        });
    }
    Ok(())
}

/// Configures the resolver for programs that do not use the proxy.
pub(super) fn resolver(made: &mut Container) {
    if !matches!(&made.proxy, Some(ProxyAccess { policy: Some(_), .. })) {
        return;
    }
    let path = Path::new("etc/resolv.conf");
    let text = RESOLVER_CONFIGURATION.to_owned();
    made.files.push(OwnFile { path: path.into(), text, mode: 0o644 });
    let mut bind = Bind::of_session(path, Path::new("/etc/resolv.conf"), Access::Ro);
    bind.origin = Origin::Default;
    made.bind(bind);
}
