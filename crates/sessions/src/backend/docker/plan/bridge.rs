//! Host commands: a directory of shims and a transport, if they are enabled.

use std::path::Path;

use sandbox_protocol::layout::PRIVATE_DIR;
use sandbox_protocol::variable::AGENT_RELAY;

use sandbox_bridge::list::HostMount;
use sandbox_bridge::session::{Around, Bridge, BridgeError, BridgeKey, Relay};
use sandbox_bridge::verdict::Warning;
use sandbox_policy::config::command::PublicKey;
use sandbox_policy::config::{Access, AgentInit, Config, HostCommands, HostKey, Transport};

use super::mounts::Bind;
use super::{Container, ContainerError, OwnDir, OwnFile, Start};

/// Uid of the user that holds the SSH key. It is in every engine's range, and no distribution uses it.
const HOLDER: u32 = 65530;

pub(super) fn open(config: &Config, made: &mut Container) -> Result<(), ContainerError> {
    let Some(asked) = &config.session.host_commands else { return Ok(()) };
    let (mounts, host_keys) = (shared(made), host_keys(&asked.value));
    let around = Around {
        network: &made.network,
        init: match made.agent.start {
            Start::Exec => AgentInit::Exec,
            Start::Supervise => AgentInit::Supervise,
        },
        mounts: &mounts,
        home: &made.agent.home,
        host_keys: &host_keys,
    };
    let Some(mut bridge) = Bridge::of(&asked.value, &around)? else { return Ok(()) };
    if let Some(list) = &mut bridge.list {
        list.apart = made.layers.iter().map(|kept| kept.target.clone()).collect();
    }
    if bridge.key.is_some() && !made.layers.is_empty() {
        return Err(ContainerError::Unsupported {
            origin: asked.origin.clone(),
            key: "host_commands.transport = \"ssh\" with a copy-on-write layer",
            why: "the host's own list decides in which directories commands run, and does not know the layer",
        });
    }
    for mount in &bridge.mounts {
        made.dirs.push(OwnDir { path: mount.source.clone(), mode: 0o755, agents: false });
        made.bind(Bind::of_session(&mount.source, &mount.target, Access::Ro));
    }
    made.host_commands = asked.value.allowed.iter().map(|entry| format!("{entry:?}")).collect();
    let names: Vec<&str> = bridge.names().into_iter().collect();
    let who = bridge.key.as_ref().map_or("you".to_owned(), |key| format!("`{}`", key.user));
    made.except(
        format!("host commands {}", names.join(", ")),
        format!("they run on this machine, as {who}"),
        Some(&asked.origin),
    );
    let warning = |warning: &Warning| format!("host command `{}`: {}", warning.entry, warning.what);
    made.notes.extend(bridge.warnings.iter().map(warning));
    if let Some(key) = &bridge.key {
        by_ssh(&bridge, key, made)?;
    }
    made.bridge = Some(bridge);
    Ok(())
}

/// Returns the directories that the host and the container share.
fn shared(made: &Container) -> Vec<HostMount> {
    let seen = made.mounts.iter().filter_map(|bind| {
        Some(HostMount { container: bind.target.clone(), host: bind.asked()?.to_owned() })
    });
    seen.collect()
}

/// Returns this machine's public host keys.
fn host_keys(asked: &HostCommands) -> Vec<PublicKey> {
    if asked.transport != Transport::Ssh || asked.host_key != HostKey::Pinned {
        return Vec::new();
    }
    let read = |kind| {
        let text = std::fs::read_to_string(format!("/etc/ssh/ssh_host_{kind}_key.pub")).ok()?;
        PublicKey::parse(&text)
    };
    ["ed25519", "ecdsa", "rsa"].into_iter().filter_map(read).collect()
}

/// Adds the SSH key, and the host name of this machine.
fn by_ssh(bridge: &Bridge, key: &BridgeKey, made: &mut Container) -> Result<(), ContainerError> {
    // A different route recreates the container.
    made.host_commands.push(format!("{:?}", bridge.routes.route));
    made.hosts.extend(bridge.host.iter().map(|(name, lead)| format!("{name}:{lead}")));
    if let Some(text) = &bridge.known_hosts {
        let path = bridge.mounts[0].source.join("known_hosts");
        made.files.push(OwnFile { path, text: text.clone(), mode: 0o644 });
    }
    let dir = key.source.parent().unwrap_or(Path::new(""));
    made.dirs.push(OwnDir { path: dir.into(), mode: 0o755, agents: false });
    if let Some(relay) = &bridge.relay {
        return hold(relay, key, made);
    }
    made.bind(Bind::of_session(&key.source, &key.target, Access::Ro));
    made.notes.push(format!(
        "the agent can read the SSH key `{}`; to prevent that, remove `agent.init = \"exec\"`",
        key.target.display()
    ));
    Ok(())
}

/// Gives the key to a separate user. It is mounted in a directory of root's, because its owner on the host may differ.
fn hold(relay: &Relay, key: &BridgeKey, made: &mut Container) -> Result<(), ContainerError> {
    let agent = made.agent.ids.map(|(uid, _)| uid);
    let user = if agent == Some(HOLDER) { HOLDER - 1 } else { HOLDER };
    let known = made.files.iter_mut().find(|file| file.path == Path::new("etc/passwd"));
    // An SSH client does not start without a passwd entry for its user.
    let known = known.ok_or(BridgeError::NamedUser)?;
    let entry = format!("relay:x:{user}:{user}:relay:/nonexistent:/sbin/nologin\n");
    known.text.push_str(&entry);
    let inside = Path::new(PRIVATE_DIR).join(&key.source);
    let (from, to) = (key.source.parent(), inside.parent());
    made.bind(Bind::of_session(
        from.unwrap_or(Path::new("")),
        to.unwrap_or(Path::new("")),
        Access::Ro,
    ));
    let why = "PID 1 gives the SSH key to a separate user";
    made.allow(&["CHOWN"], why);
    let wanted = (user, &inside, &key.target, &relay.socket, &relay.words);
    made.env.insert(AGENT_RELAY.into(), serde_json::to_string(&wanted).unwrap_or_default());
    Ok(())
}
