//! Environment variables of a container: configured ones and those that programs need. It inherits none from the caller.

use std::ffi::OsStr;
use std::path::Path;

use sandbox_protocol::layout::{RUNTIME_DIR, SEARCH_PATH, runtime};
use sandbox_protocol::variable::{AGENT_MOUNTS, is_reserved};

use super::{Container, ContainerError, Image};
use sandbox_core::plan::withheld;
use sandbox_policy::config::{Config, ContainerNetwork, Origin, env_file};
use sandbox_policy::host::Host;
use sandbox_policy::network::proxy_variables;
use sandbox_policy::variable::{self, Hidden};

/// Sets all variables except secrets.
pub(super) fn set(
    host: &Host,
    config: &Config,
    image: &Image,
    made: &mut Container,
) -> Result<(), ContainerError> {
    let own =
        |name: &str| config.secrets.values().any(|secret| secret.value.env_var.as_str() == name);
    let withheld = |entry: &&String| {
        let name = entry.split_once('=').map_or(entry.as_str(), |(name, _)| name);
        !own(name) && withheld::variable(host, config, name).is_some()
    };
    let of_providers = image.env.iter().filter(withheld);
    let of_providers = of_providers.filter_map(|entry| Some(entry.split_once('=')?.0.to_owned()));
    made.unset = image.env.iter().filter_map(|entry| removed(entry)).collect();
    made.unset.extend(of_providers);
    let of_image = image.env.iter().find_map(|entry| entry.strip_prefix("PATH="));
    // Our own directory comes last, so that `agent-sandbox check` is found and no program of the image is hidden.
    let mut path = format!(
        "{RUNTIME_DIR}/{}:{}:{RUNTIME_DIR}",
        runtime::LINKS,
        of_image.unwrap_or(SEARCH_PATH)
    );
    if let Some(bridge) = &made.bridge {
        path = format!("{}:{path}", bridge.path.display());
    }
    let home = made.agent.home.to_string_lossy().into_owned();
    let mut put = |name: &str, value: &str| made.env.insert(name.into(), value.into());
    put("PATH", &path);
    put("HOME", &home);
    put("GIT_DISCOVERY_ACROSS_FILESYSTEM", "1");
    for name in ["USER", "LOGNAME"] {
        put(name, "agent");
    }
    let network = config.session.network.as_ref().map(|network| &network.value);
    if network == Some(&ContainerNetwork::Allow) {
        for (name, value) in proxy_variables() {
            put(name, value);
        }
    }
    check_secrets(config)?;
    let asked = asked(host, config)?;
    let named = asked.iter().map(|(name, _, origin)| (name.as_str(), origin));
    made.notes.extend(withheld::container_note(host, config, named));
    for (name, value, origin) in asked {
        if is_reserved(&name) {
            return Err(ContainerError::Variable { origin, name });
        }
        made.env.insert(name, value);
    }
    mounts(made);
    Ok(())
}

/// Refuses a secret in a variable that configures PID 1, which would run or print it.
fn check_secrets(config: &Config) -> Result<(), ContainerError> {
    for secret in config.secrets.values() {
        let names = [Some(&secret.value.env_var), secret.value.base_url_var.as_ref()];
        if let Some(name) = names.into_iter().flatten().find(|name| is_reserved(name.as_str())) {
            let name = name.as_str().to_owned();
            return Err(ContainerError::Variable { origin: secret.origin.clone(), name });
        }
    }
    Ok(())
}

/// Returns the name of an image variable that the container does not get, because it would configure PID 1 or redirect
/// programs.
fn removed(entry: &str) -> Option<String> {
    let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
    let hidden = variable::hides_variable(OsStr::new(name), OsStr::new(value));
    let leads = matches!(hidden, Some(Hidden::Injecting | Hidden::Socket));
    let proxies = || proxy_variables().any(|(proxy, _)| proxy == name);
    (is_reserved(name) || leads || proxies()).then(|| name.to_owned())
}

/// Returns the variables of `env_file` and `env`, which takes precedence. `true` passes the caller's value on.
fn asked(host: &Host, config: &Config) -> Result<Vec<(String, String, Origin)>, ContainerError> {
    let mut all = Vec::new();
    if let Some(file) = &config.session.env_file {
        let failed = |source| ContainerError::EnvFile {
            origin: file.origin.clone(),
            path: file.value.clone(),
            source,
        };
        let text = config.session.env_text().map_err(failed)?.unwrap_or_default();
        for (name, value) in env_file::variables(&text).map_err(failed)? {
            all.push((name, value, file.origin.clone()));
        }
    }
    for (name, value) in &config.env {
        let given = value.value.as_deref().or_else(|| host.var(name));
        if let Some(given) = given {
            all.push((name.clone(), given.to_string_lossy().into_owned(), value.origin.clone()));
        }
    }
    Ok(all)
}

/// Sets the expected identity of each mount, which PID 1 checks before it starts the agent.
fn mounts(made: &mut Container) {
    let known = made.mounts.iter().filter_map(|bind| {
        let identity = bind.identity?;
        let target: &Path = &bind.target;
        Some((target.to_str()?, identity.dev, identity.ino))
    });
    let known: Vec<_> = known.collect();
    if let Ok(text) = serde_json::to_string(&known) {
        made.env.insert(AGENT_MOUNTS.into(), text);
    }
}
