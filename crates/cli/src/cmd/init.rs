//! `init`: a commented configuration from what is found in the project.

mod survey;
mod text;
#[cfg(test)]
mod tests;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sandbox_core::Host;
use sandbox_core::config::{PROJECT_NAMES, Request, locate};
use sandbox_protocol::Hint;
use thiserror::Error;

use self::survey::Survey;
use crate::args::Flags;
use crate::events::report::name;
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone};

/// The name that is written: of the three, the one that says that comments are welcome.
const NAME: &str = ".agent-sandbox.jsonc";

/// Nothing was written.
#[derive(Debug, Error)]
enum InitError {
    #[error("`{}` exists already", .0.display())]
    Exists(PathBuf),
    #[error("a configuration that is written inside a sandbox would be moved aside at its end")]
    Inside,
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl Hint for InitError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Exists(_) => Some("`agent-sandbox config show` says what it comes to".into()),
            Self::Inside => Some("run `agent-sandbox init` outside".into()),
            Self::Write { .. } => None,
        }
    }
}

/// Looks, writes, says what to do next. `--dry-run` prints the file instead.
pub(crate) fn run(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if host.inside {
        return Err(InitError::Inside.into());
    }
    let here = Request { cwd: flags.cwd.clone(), ..Request::default() };
    let cwd = locate(host, &here)?.cwd;
    must_be_new(&cwd)?;
    let survey = Survey::of(&cwd);
    let file = cwd.join(NAME);
    let content = text::render(&survey);
    if flags.dry_run && !flags.json {
        io.data(&content);
        return Ok(0);
    }
    if !flags.dry_run {
        create(&file, &content)?;
    }
    if flags.json {
        let found = serde_json::json!({ "file": file, "written": !flags.dry_run, "found": survey });
        io.data(&format!("{found:#}\n"));
    } else {
        next_steps(&file, &survey, io);
    }
    Ok(0)
}

fn must_be_new(cwd: &Path) -> Result<(), InitError> {
    let taken = PROJECT_NAMES.iter().map(|name| cwd.join(name));
    // A link that leads nowhere counts: it is somebody's configuration.
    let mut taken =
        taken.filter(|path| fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_dir()));
    taken.next().map_or(Ok(()), |path| Err(InitError::Exists(path)))
}

/// Creates the file; one that came into being meanwhile, or a link, is left alone.
fn create(path: &Path, content: &str) -> Result<(), InitError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => InitError::Exists(path.to_path_buf()),
        _ => InitError::Write { path: path.to_path_buf(), source },
    };
    // O_EXCL: neither overwrites nor follows a link.
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(content.as_bytes()).map_err(failed)
}

fn next_steps(file: &Path, survey: &Survey, io: &mut Stdio<'_>) {
    io.labelled(Tone::Good, "wrote", &name(file));
    if !survey.secrets.is_empty() {
        let hidden: Vec<_> = survey.secrets.iter().map(|path| name(Path::new(path))).collect();
        io.say(&format!("hidden from agents: {}", hidden.join(", ")));
    }
    if survey.stopped_early {
        io.labelled(
            Tone::Warning,
            "note",
            "the project is large; not every directory was looked at",
        );
    }
    for path in &survey.unwritable {
        let text =
            format!("{path} has a name that no configuration can hold; `--exclude` hides it");
        io.labelled(Tone::Warning, "note", &text);
    }
    io.say("next:");
    io.say("  agent-sandbox config show     what holds here, and which line says so");
    io.say("  agent-sandbox why PATH        who decides about a path, and what would change it");
    io.say("  agent-sandbox claude          run an agent");
}
