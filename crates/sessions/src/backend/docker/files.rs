//! Files of a session on the host: those that its container mounts, and properties for later commands.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use sandbox_bridge::session::Bridge;
use sandbox_protocol::layout::session;
use sandbox_protocol::variable::AGENT_COMMAND;
use serde::{Deserialize, Serialize};

use super::plan::{Container, Start};

/// Entries that outlive the container: the agent's home, and the data of its set-up.
const KEPT: [&str; 2] = ["home", "data"];
const FACTS: &str = "facts.json";

/// Properties of a container that `exec` needs, so that it does not query the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is an independent property")]
pub(super) struct Facts {
    /// User of commands that enter.
    pub(super) user: String,
    /// Path of PID 1's program inside.
    pub(super) init: String,
    /// Working directory of the agent.
    pub(super) workdir: PathBuf,
    /// Shared directories, as paths on the host and inside.
    pub(super) mounts: Vec<(PathBuf, PathBuf)>,
    /// Id of the image.
    #[serde(default)]
    pub(super) image: String,
    /// True when the agent has a terminal.
    #[serde(default)]
    pub(super) terminal: bool,
    /// True when it has an agent.
    #[serde(default)]
    pub(super) agent: bool,
    /// True when its `agent-sandbox-init` supports `attend`. Version 0.1.0 does not.
    #[serde(default)]
    pub(super) attends: bool,
    /// True when the session needs the proxy.
    #[serde(rename = "door")]
    pub(super) proxy: bool,
    /// Marks a session with a broker, and is empty otherwise. Version 0.1.0 recorded the broker's command line.
    pub(super) broker: Vec<String>,
}

impl Facts {
    pub(super) fn of(plan: &Container) -> Self {
        let shared = plan
            .mounts
            .iter()
            .filter_map(|bind| Some((bind.asked()?.to_owned(), bind.target.clone())));
        let kept = plan.layers.iter().map(|kept| (kept.base.clone(), kept.target.clone()));
        Self {
            user: plan.agent.user.clone(),
            init: plan.entrypoint.first().cloned().unwrap_or_default(),
            workdir: plan.agent.workdir.clone(),
            mounts: shared.chain(kept).collect(),
            image: plan.image.clone(),
            terminal: plan.terminal,
            agent: plan.env.contains_key(AGENT_COMMAND),
            attends: true,
            proxy: plan.proxy.is_some(),
            broker: plan.bridge.iter().filter_map(broker).collect(),
        }
    }

    pub(super) fn read(dir: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(dir.join(FACTS))?)?)
    }

    /// Translates a host directory to its path inside. The project maps to the agent's working directory, even if it is not
    /// mounted. Any other path is one of the container.
    pub(super) fn inside(&self, host: Option<&Path>, project: &Path) -> PathBuf {
        let Some(host) = host else { return self.workdir.clone() };
        let covering = self.mounts.iter().filter(|(source, _)| host.starts_with(source));
        let nearest = covering.max_by_key(|(source, _)| source.components().count());
        let (source, target) = match nearest {
            Some((source, target)) => (source.as_path(), target),
            None => (project, &self.workdir),
        };
        match host.strip_prefix(source) {
            Ok(rest) if rest.as_os_str().is_empty() => target.clone(),
            Ok(rest) => target.join(rest),
            Err(_) => host.to_owned(),
        }
    }
}

fn broker(bridge: &Bridge) -> Option<String> {
    bridge.list.is_some().then(|| "broker".into())
}

/// Creates the files of a plan, and replaces existing ones.
pub(super) fn make(dir: &Path, plan: &Container, control: &str) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    clear(dir)?;
    for own in &plan.dirs {
        let path = dir.join(&own.path);
        DirBuilder::new().recursive(true).mode(0o755).create(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(own.mode))?;
        if own.agents {
            give(&path, plan)?;
        }
    }
    for file in &plan.files {
        write(&dir.join(&file.path), file.text.as_bytes(), file.mode)?;
    }
    for link in &plan.links {
        std::os::unix::fs::symlink(&link.to, dir.join(&link.path))?;
    }
    write_control(dir, plan, control)?;
    let facts = serde_json::to_vec(&Facts::of(plan))?;
    write(&dir.join(FACTS), &facts, 0o600)
}

/// Writes the control file. Needed before each start, because `entrypoint` removes it.
pub(super) fn write_control(dir: &Path, plan: &Container, control: &str) -> io::Result<()> {
    let path = dir.join(session::CONTROL_DIR).join(session::CONTROL_FILE);
    let agents = plan.agent.start == Start::Exec;
    write(&path, control.as_bytes(), if agents { 0o600 } else { 0o644 })?;
    if agents { give(&path, plan) } else { Ok(()) }
}

/// Writes the private key, for PID 1, which passes it on, or for the agent. Other users of this machine cannot enter the
/// session's directory.
pub(super) fn write_key(
    path: &Path,
    text: &str,
    plan: &Container,
    with_relay: bool,
) -> io::Result<()> {
    let own = sandbox_linux::process::uid();
    let is_caller = plan.agent.init_uid.is_some();
    let agents = plan.agent.ids.is_some_and(|(uid, _)| own == 0 || own == uid || is_caller);
    // ssh(1) ignores a private key that others can read, if it belongs to the client's user. The owner may be another user.
    let mode = if agents && !with_relay { 0o400 } else { 0o444 };
    write(path, text.as_bytes(), mode)?;
    if with_relay { Ok(()) } else { give(path, plan) }
}

/// Makes the agent the owner, if the caller is root. Any other caller has the agent's uid.
fn give(path: &Path, plan: &Container) -> io::Result<()> {
    match plan.agent.ids {
        Some((uid, gid)) if sandbox_linux::process::uid() == 0 => chown(path, Some(uid), Some(gid)),
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(dir)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    file.set_permissions(Permissions::from_mode(mode))
}

/// Removes everything that does not outlive the container.
pub(super) fn clear(dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if KEPT.iter().any(|kept| entry.file_name() == *kept) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
