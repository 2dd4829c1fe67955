//! `config show`, `config path` and `config schema`.

mod show;

use sandbox_core::plan::{Plan, plan_config};
use sandbox_linux::escape::name;
use sandbox_policy::Host;
use sandbox_policy::config::{ConfigPath, Layer, places, schema as json_schema};

use crate::args::Flags;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone};

pub(crate) use show::show;

/// Lists the paths of configuration files, with their state.
pub(crate) fn path(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let places = places(host, &super::request(flags, Vec::new(), host)?)?;
    if flags.json {
        super::json(&serde_json::json!({ "files": places }), io);
        return Ok(0);
    }
    let rows: Vec<_> = places.iter().map(row).collect();
    let text = super::columns(&rows, |column, text, row| match (column, row[2].as_str()) {
        (_, "missing") => io.tone(Tone::Quiet, text),
        (2, state) if state.starts_with("not ") || state == "invalid" => io.tone(Tone::Bad, text),
        (2, _) => io.tone(Tone::Good, text),
        _ => text.to_owned(),
    });
    io.data(&text);
    Ok(0)
}

fn row(place: &ConfigPath) -> [String; 3] {
    let layer = if place.layer == Layer::Global { "global" } else { "project" };
    [layer.into(), name(&place.path), place.state.into()]
}

/// Prints the JSON Schema of configuration files.
pub(crate) fn schema(io: &mut Stdio<'_>) -> u8 {
    super::json(&json_schema(), io);
    0
}

/// Returns the plan of this directory.
fn planned(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Result<Plan, Failed> {
    let request = super::request(flags, Vec::new(), host)?;
    let config = super::load(host, &request, io)?;
    Ok(plan_config(host, config, Vec::new())?)
}
