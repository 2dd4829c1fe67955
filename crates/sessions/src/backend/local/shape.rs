//! What the keys of sessions mean on this backend. What it cannot carry out it refuses.

use std::ffi::OsString;
use std::path::PathBuf;

use sandbox_policy::config::env_file;
use sandbox_policy::config::{Config, Origin, Sourced};

use crate::error::ShapeError;

/// Keys that only a container can meet, and why.
const REFUSED: &[(&str, &str)] = &[
    ("network", "it has the host's network, none, or hosts by name"),
    ("image", "it shows the host's own programs"),
    ("runtime", "there is no container"),
    ("resources", "without a control group of its own nothing would hold a limit"),
    ("workspace", "it works in the project itself; `cow` keeps changes apart"),
    ("home", "it shows your own home, read-only"),
    ("services", "nothing is started beside the agent"),
    ("proxy", "it finds its proxy by itself"),
    ("host_commands", "there is no bridge from here to the host"),
];

/// The agent of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agent {
    /// Its command line; empty for a session that only serves `exec`.
    pub argv: Vec<OsString>,
    /// Where it starts; the project when left out.
    pub workdir: Option<PathBuf>,
}

/// The agent that a configuration asks for, and the configuration with everything in it that
/// follows from the keys of sessions.
pub fn shape(mut config: Config) -> Result<(Config, Agent), ShapeError> {
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

fn agent(config: &Config) -> Result<Agent, ShapeError> {
    let Some(Sourced { value: agent, origin }) = &config.session.agent else {
        return Ok(Agent::default());
    };
    if agent.user.is_some() {
        return Err(refused("agent.user", origin, "everything in it runs as you"));
    }
    if agent.init.is_some() {
        return Err(refused("agent.init", origin, "its first process is always our own"));
    }
    let Some(command) = &agent.command else {
        return Ok(Agent { argv: Vec::new(), workdir: agent.workdir.as_ref().map(PathBuf::from) });
    };
    let words = std::iter::once(command).chain(agent.args.iter().flatten());
    let argv = words.map(OsString::from).collect();
    Ok(Agent { argv, workdir: agent.workdir.as_ref().map(PathBuf::from) })
}

/// The file's variables, under those that are written in the configuration itself.
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
