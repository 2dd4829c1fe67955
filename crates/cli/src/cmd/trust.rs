//! `trust`: allow, list, take back.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use sandbox_policy::Host;
use sandbox_policy::config::trust::{self, Widening};
use sandbox_policy::config::{Layer, locate};
use sandbox_protocol::ExitCode;

use crate::args::{Flags, Trust};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, one_line};
use sandbox_linux::escape::name;

/// Records that the user accepts a file's content, or the opposite.
pub(crate) fn run(flags: &Flags, asked: &Trust, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if host.inside {
        let mut failed = Failed::usage("trust cannot be given from inside a sandbox");
        failed.code = ExitCode::Setup.code();
        failed.hint = None;
        return Err(failed);
    }
    if asked.list {
        return list(flags, host, io);
    }
    let file = file(flags, asked, host)?;
    if asked.revoke {
        let count = trust::revoke(host, &file)?;
        io.say(&format!("{count} record(s) of {} removed", name(&file)));
        return Ok(0);
    }
    let content = std::fs::read(&file)
        .map_err(|error| Failed::new(error, Some(format!("cannot read {}", file.display()))))?;
    trust::record(host, &file, &content)?;
    io.say(&format!("{} is trusted until it changes", name(&file)));
    Ok(0)
}

/// The file that was named, or the project's.
fn file(flags: &Flags, asked: &Trust, host: &Host) -> Result<PathBuf, Failed> {
    if let Some(file) = &asked.file {
        return Ok(host.cwd.as_deref().unwrap_or(Path::new("/")).join(file));
    }
    let located = locate(host, &super::request(flags, Vec::new(), host)?)?;
    let project = located.files.into_iter().find(|file| file.layer == Layer::Project);
    project
        .map(|file| file.path)
        .ok_or_else(|| Failed::usage("there is no project configuration here"))
}

fn list(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let records = trust::list(host)?;
    if flags.json {
        io.data(&format!("{}\n", serde_json::json!(records)));
        return Ok(0);
    }
    for record in records {
        io.data(&format!("{}  {}\n", record.digest, name(&record.path)));
    }
    Ok(0)
}

/// Asks on the terminal whether a file may open what it wants to open.
pub(crate) fn ask(file: &Path, widenings: &[Widening], io: &mut Stdio<'_>) -> bool {
    io.labelled(
        Tone::Warning,
        "trust",
        &format!("{} opens more than a sandbox here would have:", name(file)),
    );
    for widening in widenings {
        io.say(&format!("  {}", one_line(&widening.to_string())));
    }
    let _ = write!(std::io::stderr(), "Allow this until the file changes? [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
