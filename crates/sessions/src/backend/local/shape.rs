//! Session keys on this backend. Unsupported ones are refused.

use std::ffi::OsString;
use std::path::PathBuf;

use sandbox_policy::config::env_file;
use sandbox_policy::config::{ArgumentText, Config, Origin, Sourced};

use crate::error::ShapeError;

/// Keys that only containers support, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("network", "it supports the host's network, no network, or an allow list"),
    ("image", "it uses the host's programs"),
    ("runtime", "it does not use containers"),
    ("resources", "it has no cgroup to enforce limits"),
    ("workspace", "it works in the project directory; use `cow` for copy-on-write"),
    ("home", "it shows your home, read-only"),
    ("services", "it starts no services"),
    ("proxy", "it configures the proxy automatically"),
    ("host_commands", "it has no bridge to the host"),
];

/// Agent of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentCommand {
    /// Command line; empty for a session that only serves `exec`.
    pub argv: Vec<OsString>,
    /// Working directory; the project by default.
    pub workdir: Option<PathBuf>,
}

/// Returns the agent that a configuration describes, and the configuration with all effects of
/// session keys applied.
pub fn shape(mut config: Config) -> Result<(Config, AgentCommand), ShapeError> {
    for key in &config.skipped {
        if let Some((_, why)) = REFUSED.iter().find(|(name, _)| *name == key.value) {
            return Err(refused(&key.value, &key.origin, why));
        }
    }
    let agent = agent(&config)?;
    if let Some(file) = config.session.env_file.clone() {
        read_variables(&mut config, &file)?;
    }
    config.skipped.clear();
    Ok((config, agent))
}

fn refused(key: &str, origin: &Origin, why: &'static str) -> ShapeError {
    ShapeError::Refused { key: key.to_owned(), origin: origin.clone(), why }
}

fn agent(config: &Config) -> Result<AgentCommand, ShapeError> {
    let Some(Sourced { value: agent, origin }) = &config.session.agent else {
        return Ok(AgentCommand::default());
    };
    if agent.user.is_some() {
        return Err(refused("agent.user", origin, "all its processes run as you"));
    }
    if agent.init.is_some() {
        return Err(refused("agent.init", origin, "its PID 1 is always agent-sandbox"));
    }
    let workdir = agent.workdir.as_ref().map(|dir| PathBuf::from(dir.as_str()));
    let Some(command) = &agent.command else {
        return Ok(AgentCommand { argv: Vec::new(), workdir });
    };
    let arguments = agent.args.iter().flatten().map(ArgumentText::as_str);
    let argv = std::iter::once(command.as_str()).chain(arguments).map(OsString::from).collect();
    Ok(AgentCommand { argv, workdir })
}

/// Adds the variables of the file. Those in the configuration take precedence.
fn read_variables(config: &mut Config, file: &Sourced<PathBuf>) -> Result<(), ShapeError> {
    let failed = |source| ShapeError::EnvFile {
        origin: file.origin.clone(),
        path: file.value.clone(),
        source,
    };
    let text = config.session.env_text().map_err(failed)?.unwrap_or_default();
    for (name, value) in env_file::variables(&text).map_err(failed)? {
        let value = Sourced::new(Some(OsString::from(value)), file.origin.clone());
        config.env.entry(name).or_insert(value);
    }
    Ok(())
}
