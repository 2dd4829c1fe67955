//! `init`: creates a commented configuration for the project.

use std::path::Path;

use sandbox_linux::escape::name;
use sandbox_policy::Host;
use sandbox_policy::config::{Layer, Request, locate};
use sandbox_policy::starter::{Starter, StarterError};

use crate::args::Flags;
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone};

/// Inspects the project, writes the file, and prints the next steps. `--dry-run` prints the file instead.
pub(crate) fn run(flags: &Flags, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if host.inside {
        return Err(StarterError::Inside.into());
    }
    let here = Request { cwd: flags.cwd.clone(), ..Request::default() };
    let located = locate(host, &here)?;
    let starter = Starter::of(&located.cwd, host)?;
    if flags.dry_run && !flags.json {
        io.data(&starter.content);
        return Ok(0);
    }
    if !flags.dry_run {
        starter.write()?;
    }
    if flags.json {
        let Starter { file, survey, .. } = starter;
        let found = serde_json::json!({ "file": file, "written": !flags.dry_run, "found": survey });
        io.data(&format!("{found:#}\n"));
    } else {
        next_steps(&starter, io);
        for file in located.files.iter().filter(|file| file.layer == Layer::Project) {
            io.note(&format!("{} applies here, too", name(&file.path)));
        }
    }
    Ok(0)
}

fn next_steps(Starter { file, survey, .. }: &Starter, io: &mut Stdio<'_>) {
    io.labelled(Tone::Good, "wrote", &name(file));
    if !survey.secrets.is_empty() {
        let hidden: Vec<_> = survey.secrets.iter().map(|path| name(Path::new(path))).collect();
        io.say(&format!("hidden from agents: {}", hidden.join(", ")));
    }
    if survey.stopped_early {
        io.note("the project is large; some directories were not inspected");
    }
    for path in &survey.unwritable {
        io.note(&format!(
            "cannot write {path} to a configuration because of its name; `--exclude` hides it"
        ));
    }
    io.say("next:");
    io.say("  agent-sandbox config show     show the effective configuration");
    io.say("  agent-sandbox why PATH        explain the rule for a path");
    io.say("  agent-sandbox claude          run an agent");
}
