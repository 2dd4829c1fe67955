//! Commands, one file each. Each takes its arguments and the host, and returns an exit code.

pub(crate) mod multicall;
pub(crate) mod exec;
pub(crate) mod blocked;
#[cfg(feature = "layers")]
pub(crate) mod sessions;
#[cfg(feature = "layers")]
pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod why;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod trust;
#[cfg(feature = "proxy")]
pub(crate) mod usage;
pub(crate) mod config;
#[cfg(feature = "layers")]
pub(crate) mod fs;
#[cfg(feature = "docker")]
pub(crate) mod image;
#[cfg(feature = "proxy")]
pub(crate) mod secret;
#[cfg(feature = "proxy")]
pub(crate) mod proxy;
#[cfg(feature = "docker")]
pub(crate) mod host_command;
pub(crate) mod manual;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandbox_linux::escape::name;
use sandbox_policy::Host;
use sandbox_policy::config::{self as core_config, ConfigError, Layer, Request};

use crate::args::Flags;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone};

/// Prints the help of a command.
pub(crate) fn help<S: AsRef<str>>(words: &[S], flags: &Flags, io: &mut Stdio<'_>) -> Outcome {
    let text = crate::args::help::of(words)?;
    if flags.json {
        json(&serde_json::json!({ "help": text }), io);
    } else {
        io.data(&text);
    }
    Ok(0)
}

/// Prints the help of a command that needs a subcommand. Under `--json`, a missing subcommand is an error.
#[cfg(any(feature = "layers", feature = "proxy"))]
pub(crate) fn overview(word: &str, flags: &Flags, io: &mut Stdio<'_>) -> Outcome {
    if flags.json {
        return Err(Failed::no_subcommand(word));
    }
    help(&[word], flags, io)
}

/// Prints the version.
pub(crate) fn version(flags: &Flags, io: &mut Stdio<'_>) -> u8 {
    let version = env!("CARGO_PKG_VERSION");
    if flags.json {
        json(&serde_json::json!({ "version": version }), io);
    } else {
        io.data(&format!("agent-sandbox {version}\n"));
    }
    0
}

/// Returns the request that the flags make.
pub(crate) fn request(
    flags: &Flags,
    command: Vec<OsString>,
    host: &Host,
) -> Result<Request, Failed> {
    flags.request(command, trusts(flags, host)).map_err(Failed::usage)
}

/// Returns true when the user trusts the project's configuration for this command.
pub(crate) fn trusts(flags: &Flags, host: &Host) -> bool {
    let variable = host.var("AGENT_SANDBOX_TRUST");
    flags.trust || variable.is_some_and(|value| value == "1" || value == "true")
}

/// Loads the configuration. On a terminal, the user is asked once to trust each project file that widens the policy.
pub(crate) fn load(
    host: &Host,
    request: &Request,
    io: &mut Stdio<'_>,
) -> Result<core_config::Config, Failed> {
    asking(host, io, || core_config::load(host, request))
}

/// Loads the configuration for a session, and binds the request to the content that the user trusted.
#[cfg(feature = "sessions")]
pub(crate) fn load_bound(
    host: &Host,
    request: &mut Request,
    io: &mut Stdio<'_>,
) -> Result<core_config::Config, Failed> {
    asking(host, io, || core_config::load_bound(host, request))
}

fn asking(
    host: &Host,
    io: &mut Stdio<'_>,
    mut load: impl FnMut() -> Result<core_config::Config, ConfigError>,
) -> Result<core_config::Config, Failed> {
    let mut asked = Vec::new();
    loop {
        let error = match load() {
            Ok(config) => return Ok(config),
            Err(error) => error,
        };
        let ConfigError::Untrusted { file, digest, widenings, .. } = &error else {
            return Err(error.into());
        };
        // A file that changed while the user read the question is not trusted, and not asked for again.
        let ask = io.interactive && !host.inside && !asked.contains(file);
        if !ask || !trust::ask(file, widenings, io) {
            return Err(error.into());
        }
        core_config::trust::record_digest(host, file, digest)?;
        asked.push(file.clone());
    }
}

/// Names each file of the project that is not in the working directory, on a terminal.
pub(crate) fn name_policies(
    config: &core_config::Config,
    request: &Request,
    flags: &Flags,
    io: &mut Stdio<'_>,
) {
    if !io.err_terminal || flags.json || request.config.is_some() {
        return;
    }
    let project = config.loaded.iter().filter(|(layer, _)| *layer == Layer::Project);
    for (_, path) in project.filter(|(_, path)| path.parent() != Some(&config.cwd)) {
        io.labelled(Tone::Quiet, "policy", &name(&from(&config.cwd, path)));
    }
}

/// Returns a path relative to a directory that is below its parent.
fn from(cwd: &Path, path: &Path) -> PathBuf {
    let Some(below) = path.parent().and_then(|above| cwd.strip_prefix(above).ok()) else {
        return path.to_path_buf();
    };
    let up: PathBuf = below.iter().map(|_| "..").collect();
    path.file_name().map_or_else(|| path.to_path_buf(), |file| up.join(file))
}

/// Returns the real path of the working directory.
#[cfg(feature = "layers")]
pub(crate) fn here(flags: &Flags, host: &Host) -> PathBuf {
    let cwd = host.cwd.as_deref().unwrap_or(Path::new("/"));
    let asked = flags.cwd.as_ref().map_or_else(|| cwd.to_path_buf(), |dir| cwd.join(dir));
    std::fs::canonicalize(&asked).unwrap_or(asked)
}

/// Prints JSON.
pub(crate) fn json(value: &impl serde::Serialize, io: &mut Stdio<'_>) {
    let text = serde_json::to_string_pretty(value)
        .unwrap_or_else(|error| serde_json::json!({ "error": error.to_string() }).to_string());
    io.data(&format!("{text}\n"));
}

/// Prints JSON with its keys in alphabetical order.
#[cfg(feature = "layers")]
pub(crate) fn sorted_json(value: &impl serde::Serialize, io: &mut Stdio<'_>) {
    match serde_json::to_value(value) {
        Ok(value) => json(&value, io),
        Err(_) => json(value, io),
    }
}

/// Formats rows in aligned columns. The last one is not padded. `paint` gets the column, the padded text and the row.
pub(crate) fn columns<const N: usize>(
    rows: &[[String; N]],
    paint: impl Fn(usize, &str, &[String; N]) -> String,
) -> String {
    // A long cell must not push the next column off the screen.
    const WIDEST: usize = 60;
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count().min(WIDEST));
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = if column + 1 == N { 0 } else { widths[column] };
            paint(column, &format!("{cell:<width$}"), row)
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}
