//! `config show`, `config path` and `config schema`.

mod show;

use std::path::{Path, PathBuf};

use sandbox_policy::Host;
use sandbox_policy::config::{
    self as core_config, ConfigError, GLOBAL_NAMES, Layer, PROJECT_NAMES, Request, trust,
};
use serde::Serialize;

use crate::args::Flags;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone};
use sandbox_linux::escape::name;

pub(crate) use show::show;

/// A place where a configuration file can be.
#[derive(Debug, Serialize)]
struct Place {
    layer: Layer,
    path: PathBuf,
    exists: bool,
    state: &'static str,
}

/// Which files are read, and where they could be.
pub(crate) fn path(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let request = super::request(flags, Vec::new(), host)?;
    let located = core_config::locate(host, &request)?;
    let outcome = core_config::load(host, &request);
    let mut places = Vec::new();
    for (layer, path) in candidates(&located.cwd, host, &request) {
        let read = located.files.iter().any(|file| file.layer == layer && file.path == path);
        let state = if read { state(layer, &path, &request, host, &outcome) } else { "not there" };
        places.push(Place { layer, path, exists: read, state });
    }
    if flags.json {
        super::json(&serde_json::json!({ "files": places }), io);
        return Ok(0);
    }
    let rows: Vec<[String; 3]> = places
        .iter()
        .map(|place| {
            let layer = if place.layer == Layer::Global { "global" } else { "project" };
            [layer.into(), name(&place.path), place.state.into()]
        })
        .collect();
    let text = super::columns(&rows, |column, text, row| match (column, row[2].as_str()) {
        (_, "not there") => io.tone(Tone::Quiet, text),
        (2, state) if state.starts_with("not ") || state == "broken" => io.tone(Tone::Bad, text),
        (2, _) => io.tone(Tone::Good, text),
        _ => text.to_owned(),
    });
    io.data(&text);
    Ok(0)
}

fn candidates(cwd: &Path, host: &Host, request: &Request) -> Vec<(Layer, PathBuf)> {
    let global = host.config_dir();
    let global = global.iter().flat_map(|dir| GLOBAL_NAMES.map(|name| dir.join(name)));
    let mut all: Vec<_> = global.map(|path| (Layer::Global, path)).collect();
    match &request.config {
        Some(file) => all.push((Layer::Project, cwd.join(file))),
        None => all.extend(PROJECT_NAMES.map(|name| (Layer::Project, cwd.join(name)))),
    }
    all
}

/// Whether a file that is there is obeyed.
fn state(
    layer: Layer,
    path: &Path,
    request: &Request,
    host: &Host,
    outcome: &Result<core_config::Config, ConfigError>,
) -> &'static str {
    match outcome {
        Err(ConfigError::Untrusted { file, .. }) if file == path => {
            "not trusted, and it opens something"
        }
        Err(error) if error.to_string().contains(&path.display().to_string()) => "broken",
        _ if layer == Layer::Global => "read",
        _ if request.config.is_some() => "read, trusted because it is named",
        _ if request.trust => "read, trusted this once",
        _ if std::fs::read(path).is_ok_and(|text| trust::is_trusted(host, path, &text)) => {
            "read, trusted"
        }
        _ => "read, needs no trust: it opens nothing",
    }
}

/// The JSON Schema of configuration files.
pub(crate) fn schema(io: &mut Stdio<'_>) -> u8 {
    super::json(&core_config::schema(), io);
    0
}

/// The plan that holds here, or why there is none.
fn planned(
    flags: &Flags,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Result<sandbox_core::plan::Plan, Failed> {
    let request = super::request(flags, Vec::new(), host)?;
    let config = super::load(host, &request, io)?;
    Ok(sandbox_core::plan::plan_config(host, config, Vec::new())?)
}
