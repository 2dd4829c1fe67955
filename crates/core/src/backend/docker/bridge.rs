//! The way from a container to commands of its host: what is mounted for it, and what has to run.

use std::path::Path;

use super::{Bind, Container, ContainerError, OwnDir, OwnFile, OwnLink, RUNTIME, Source};
use crate::config::{Access, AgentInit, Config};
use crate::host_command::route::{BRIDGE_DIR, ROUTES, SHIMS};
use crate::host_command::{Bridge, HostMount};

/// Adds what host commands need; nothing at all where they are off.
pub(super) fn set(config: &Config, made: &mut Container) -> Result<(), ContainerError> {
    let Some(commands) = &config.session.host_commands else { return Ok(()) };
    let wrong = |error| ContainerError::Bridge { origin: commands.origin.clone(), error };
    let has_network = !matches!(made.network.as_str(), "none");
    // Whoever waits inside could keep a key for the agent; as long as nothing does, the agent can read it.
    let bridge =
        Bridge::of(&commands.value, has_network, AgentInit::Exec, &shared(made)).map_err(wrong)?;
    let Some(bridge) = bridge else { return Ok(()) };
    let Some(broker) = &bridge.broker else {
        return Err(ContainerError::Unsupported {
            origin: commands.origin.clone(),
            key: "host_commands.transport",
            why: "`up` opens the Unix socket; leave `transport` out",
        });
    };
    made.broker = broker.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    files(&bridge, made);
    let path = made.env.get("PATH").cloned().unwrap_or_default();
    made.env.insert("PATH".into(), format!("{SHIMS}:{path}"));
    let names: Vec<String> =
        commands.value.allowed.iter().map(|entry| format!("`{}`", entry.text())).collect();
    let why = "the configuration allows them, and nothing else on the host";
    made.except(format!("host commands {}", names.join(", ")), why, Some(&commands.origin));
    made.notes.extend(
        bridge.warnings.iter().map(|warning| format!("`{}` {}", warning.entry, warning.what)),
    );
    Ok(())
}

/// What the session's directory gets. The container sees one folder of it, and cannot write there.
fn files(bridge: &Bridge, made: &mut Container) {
    for (path, mode) in [("bridge", 0o755), ("bridge/bin", 0o755), ("broker", 0o700)] {
        made.dirs.push(OwnDir { path: path.into(), mode, agents: false });
    }
    for name in bridge.names() {
        made.links.push(OwnLink {
            path: Path::new("bridge/bin").join(name),
            to: Path::new(RUNTIME).join("agent-sandbox"),
        });
    }
    let text = serde_json::to_string_pretty(&bridge.routes).unwrap_or_default();
    let routes = Path::new(ROUTES).file_name().unwrap_or_default();
    made.files.push(OwnFile { path: Path::new("bridge").join(routes), text, mode: 0o644 });
    let text = serde_json::to_string_pretty(&bridge.list).unwrap_or_default();
    made.files.push(OwnFile { path: "broker/list.json".into(), text, mode: 0o600 });
    made.bind(Bind::of_session(Path::new("bridge"), Path::new(BRIDGE_DIR), Access::Ro));
}

/// The directories that both sides see.
fn shared(made: &Container) -> Vec<HostMount> {
    let user = made.mounts.iter().filter(|bind| bind.identity.is_some());
    user.filter_map(|bind| match &bind.source {
        Source::Host(host) if host.is_dir() => {
            Some(HostMount { container: bind.target.clone(), host: host.clone() })
        }
        _ => None,
    })
    .collect()
}
