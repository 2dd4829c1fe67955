//! The variables of a container: what is asked for, what programs need, and nothing of the caller's.

use std::ffi::OsStr;
use std::path::Path;

use super::{Container, ContainerError, Image, RUNTIME};
use crate::config::{Config, ContainerNetwork, Origin};
use crate::host::Host;
use crate::network::proxy_variables;
use crate::preset::{self, Hidden};

/// What decides about the first process and is gone before the agent runs: nobody else sets these.
pub const STRIPPED: &[&str] = &["SESSION_TOKEN", "CONTROL_PLANE_URL", "SESSION_ID"];
const OURS: &[&str] = &["AGENT_", "WORKSPACE_PATH", "WORKSPACE_COMMIT"];
/// Where programs are in images that do not say it, and where a relay looks for them, whatever an image says.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whether a variable is the first process's own.
fn is_ours(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    STRIPPED.contains(&upper.as_str()) || OURS.iter().any(|ours| upper.starts_with(ours))
}

/// Sets everything that is no secret.
pub(super) fn set(
    host: &Host,
    config: &Config,
    image: &Image,
    made: &mut Container,
) -> Result<(), ContainerError> {
    made.unset = image.env.iter().filter_map(|entry| taken_away(entry)).collect();
    let of_image = image.env.iter().find_map(|entry| entry.strip_prefix("PATH="));
    let mut path = format!("{RUNTIME}/links:{}", of_image.unwrap_or(SEARCH_PATH));
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
    for (name, value, origin) in asked(host, config)? {
        if is_ours(&name) {
            return Err(ContainerError::Variable { origin, name });
        }
        made.env.insert(name, value);
    }
    mounts(made);
    Ok(())
}

/// Variables that the image sets and no container gets: they would speak for us, or lead programs astray.
fn taken_away(entry: &str) -> Option<String> {
    let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
    let hidden = preset::hides_variable(OsStr::new(name), OsStr::new(value));
    let leads = matches!(hidden, Some(Hidden::Injecting | Hidden::Socket));
    let proxies = || proxy_variables().any(|(proxy, _)| proxy == name);
    (is_ours(name) || leads || proxies()).then(|| name.to_owned())
}

/// `env_file`, then `env`, which wins. `true` lets the caller's own value through.
fn asked(host: &Host, config: &Config) -> Result<Vec<(String, String, Origin)>, ContainerError> {
    let mut all = Vec::new();
    if let Some(file) = &config.session.env_file {
        let failed = |source| ContainerError::EnvFile {
            origin: file.origin.clone(),
            path: file.value.clone(),
            source,
        };
        let text = std::fs::read_to_string(&file.value).map_err(failed)?;
        for (name, value) in env_lines(&text).map_err(failed)? {
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

/// Lines `NAME=VALUE`, as Docker reads them: what stands behind `=` is the value, quotes and all; `#`
/// begins a comment only at the start.
pub fn env_lines(text: &str) -> std::io::Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let pair = line.split_once('=').filter(|(name, _)| is_variable(name));
        let Some((name, value)) = pair else {
            let wrong = format!("line {} is no `NAME=VALUE`", index + 1);
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, wrong));
        };
        pairs.push((name.to_owned(), unquoted(value.trim_end()).to_owned()));
    }
    Ok(pairs)
}

fn is_variable(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(letters)
}

fn unquoted(value: &str) -> &str {
    let inner = |quote| value.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

/// What each mount has to be, for the first process to look at before it starts anything.
fn mounts(made: &mut Container) {
    let known = made.mounts.iter().filter_map(|bind| {
        let identity = bind.identity?;
        let target: &Path = &bind.target;
        Some((target.to_str()?, identity.dev, identity.ino))
    });
    let known: Vec<_> = known.collect();
    if let Ok(text) = serde_json::to_string(&known) {
        made.env.insert("AGENT_MOUNTS".into(), text);
    }
}
