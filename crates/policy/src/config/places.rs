//! Paths where configuration files can be, and the state of each.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{
    Config, ConfigError, Found, GLOBAL_NAMES, Layer, Located, PROJECT_NAMES, Request, load, locate,
    trust,
};
use crate::Host;

/// Path where a configuration file can be.
#[derive(Debug, Serialize)]
pub struct ConfigPath {
    /// Layer that the file configures.
    pub layer: Layer,
    /// Path.
    pub path: PathBuf,
    /// True when the file exists.
    pub exists: bool,
    /// State for users. `missing` and texts that start with `not` or `invalid` mean that the file is not applied.
    pub state: &'static str,
}

/// Lists the paths, the user's first. Above the working directory, only files that exist are listed.
pub fn places(host: &Host, request: &Request) -> Result<Vec<ConfigPath>, ConfigError> {
    let located = locate(host, request)?;
    let outcome = load(host, request);
    let place = |(layer, path): (Layer, PathBuf)| {
        let exists = located.files.iter().any(|file| file.layer == layer && file.path == path);
        let state = if exists { state(layer, &path, request, host, &outcome) } else { "missing" };
        ConfigPath { layer, path, exists, state }
    };
    Ok(candidates(&located, host, request).into_iter().map(place).collect())
}

fn candidates(located: &Located, host: &Host, request: &Request) -> Vec<(Layer, PathBuf)> {
    let cwd = &located.cwd;
    let global = host.config_dir();
    let global = global.iter().flat_map(|dir| GLOBAL_NAMES.map(|name| dir.join(name)));
    let mut all: Vec<_> = global.map(|path| (Layer::Global, path)).collect();
    if let Some(file) = &request.config {
        all.push((Layer::Project, cwd.join(file)));
        return all;
    }
    let above = |file: &&Found| file.layer == Layer::Project && file.base != *cwd;
    let above = located.files.iter().filter(above);
    all.extend(above.map(|file| (Layer::Project, file.path.clone())));
    all.extend(PROJECT_NAMES.map(|name| (Layer::Project, cwd.join(name))));
    all
}

fn state(
    layer: Layer,
    path: &Path,
    request: &Request,
    host: &Host,
    outcome: &Result<Config, ConfigError>,
) -> &'static str {
    match outcome {
        Err(ConfigError::Untrusted { file, .. }) if file == path => {
            "not trusted: it widens the policy"
        }
        Err(ConfigError::Foreign { path: foreign }) if foreign == path => {
            "not read: it belongs to another user"
        }
        Err(error) if error.to_string().contains(&path.display().to_string()) => "invalid",
        _ if layer == Layer::Global => "read",
        _ if request.config.is_some() => "read, trusted because of `--config`",
        _ if request.trust => "read, trusted for this command",
        _ if std::fs::read(path).is_ok_and(|text| trust::is_trusted(host, path, &text)) => {
            "read, trusted"
        }
        _ => "read, needs no trust: it widens nothing",
    }
}
