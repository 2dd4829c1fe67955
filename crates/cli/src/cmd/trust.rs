//! `trust`: records, lists and revokes trust in configuration files.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_policy::Host;
use sandbox_policy::config::trust::{self, Widening};
use sandbox_policy::config::{Layer, locate};
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use crate::args::{Flags, Trust};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, ask, one_line};
use sandbox_linux::escape::name;

#[derive(Debug, Error)]
#[error("cannot read `{}`", .0.display())]
struct Unreadable(PathBuf, #[source] io::Error);

impl Hint for Unreadable {
    fn hint(&self) -> Option<String> {
        Some("`agent-sandbox config path` lists the files that are read here".into())
    }
}

/// Records or revokes the user's trust in a file's content.
pub(crate) fn run(flags: &Flags, asked: &Trust, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if host.inside {
        let mut failed = Failed::usage("`trust` only works outside the sandbox");
        failed.code = ExitCode::Setup.code();
        failed.hint = None;
        return Err(failed);
    }
    if asked.list {
        return list(flags, host, io);
    }
    let files = files(flags, asked, host)?;
    if asked.revoke {
        for file in &files {
            let count = trust::revoke(host, file)?;
            let s = if count == 1 { "" } else { "s" };
            io.say(&format!("Revoked {count} trust record{s} of {}", name(file)));
        }
        return Ok(0);
    }
    let [file] = &files[..] else { return Err(several(&files)) };
    let content = std::fs::read(file).map_err(|error| Unreadable(file.clone(), error))?;
    trust::record(host, file, &content)?;
    io.say(&format!("Trusted {} until it changes", name(file)));
    Ok(0)
}

/// Returns the named file, or all files of the project.
fn files(flags: &Flags, asked: &Trust, host: &Host) -> Result<Vec<PathBuf>, Failed> {
    if let Some(file) = &asked.file {
        return Ok(vec![host.cwd.as_deref().unwrap_or(Path::new("/")).join(file)]);
    }
    let located = locate(host, &super::request(flags, Vec::new(), host)?)?;
    let project = located.files.into_iter().filter(|file| file.layer == Layer::Project);
    let files: Vec<_> = project.map(|file| file.path).collect();
    if files.is_empty() {
        let hint =
            "`agent-sandbox init` creates one, which needs no trust until it opens something";
        let failed = Failed::usage("no project configuration applies in this directory");
        return Err(Failed { hint: Some(hint.into()), ..failed });
    }
    Ok(files)
}

/// Returns the error for a directory in which several files apply. The user has to read each of them.
fn several(files: &[PathBuf]) -> Failed {
    let lines = files.iter().map(|file| format!("\n  agent-sandbox trust {}", name(file)));
    let mut failed = Failed::usage("several configuration files apply in this directory");
    failed.hint = Some(format!("name the file to trust:{}", lines.collect::<String>()));
    failed
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

/// Asks the user to trust a file that widens the policy.
pub(crate) fn ask(file: &Path, widenings: &[Widening], io: &mut Stdio<'_>) -> bool {
    io.labelled(Tone::Warning, "trust", &format!("{} widens the default policy:", name(file)));
    for widening in widenings {
        io.say(&format!("  {}", one_line(&widening.to_string())));
    }
    ask::agrees("Allow this until the file changes?")
}
