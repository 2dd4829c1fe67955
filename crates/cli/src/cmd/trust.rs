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
    let file = file(flags, asked, host)?;
    if asked.revoke {
        let count = trust::revoke(host, &file)?;
        io.say(&format!(
            "Revoked {count} trust record{} of {}",
            if count == 1 { "" } else { "s" },
            name(&file)
        ));
        return Ok(0);
    }
    let content = std::fs::read(&file).map_err(|error| Unreadable(file.clone(), error))?;
    trust::record(host, &file, &content)?;
    io.say(&format!("Trusted {} until it changes", name(&file)));
    Ok(0)
}

/// Returns the named file, or the project's.
fn file(flags: &Flags, asked: &Trust, host: &Host) -> Result<PathBuf, Failed> {
    if let Some(file) = &asked.file {
        return Ok(host.cwd.as_deref().unwrap_or(Path::new("/")).join(file));
    }
    let located = locate(host, &super::request(flags, Vec::new(), host)?)?;
    let project = located.files.into_iter().find(|file| file.layer == Layer::Project);
    project.map(|file| file.path).ok_or_else(|| {
        let hint =
            "`agent-sandbox init` creates one, which needs no trust until it opens something";
        let failed = Failed::usage("this directory has no project configuration");
        Failed { hint: Some(hint.into()), ..failed }
    })
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
