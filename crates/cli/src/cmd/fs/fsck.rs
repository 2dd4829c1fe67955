//! `fs fsck`: checks a filesystem for damage, and repairs it.

use std::path::Path;

use sandbox_layers::database::check::{Problem, check, repair};
use sandbox_layers::database::{check_unused, settle};
use sandbox_protocol::ExitCode;
use serde_json::json;

use sandbox_layers::folder;

use crate::args::Flags;
use crate::args::fs::Fsck;
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone, visible};

/// Checks a filesystem. Exits with 1 when it finds damage.
pub(crate) fn run(flags: &Flags, fsck: &Fsck, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let path = folder::existing(&fsck.target.target, here)?;
    // A killed mount leaves files that the next mount merges. That is not damage, so it is done first.
    let settled = settle(&path);
    let problems = if fsck.repair {
        check_unused(&path)?;
        repair(&path)?
    } else {
        check(&path)?
    };
    match settled {
        Ok(true) => io.say("a mount of it was killed; its changes are now in the database"),
        // If there is damage, it explains the error.
        Err(error) if problems.is_empty() => return Err(error.into()),
        _ => {}
    }
    if flags.json {
        let rows: Vec<_> = problems
            .iter()
            .map(|problem| {
                json!({ "rule": problem.rule, "what": problem.what, "repairable": problem.rule.is_safe() })
            })
            .collect();
        super::super::json(&rows, io);
    } else {
        show(&problems, fsck.repair, io);
    }
    Ok(ExitCode::failed_if(!problems.is_empty()).code())
}

fn show(problems: &[Problem], repaired: bool, io: &mut Stdio<'_>) {
    for problem in problems {
        let what = visible(&problem.what).replace('\n', " ");
        let rule = json!(problem.rule).as_str().unwrap_or_default().to_owned();
        let text = format!("{}  {what}\n", io.tone(Tone::Bad, &format!("{rule:<9}")));
        io.data(&text);
    }
    match problems.len() {
        0 => io.say("no damage found"),
        _ if !repaired && problems.iter().any(|problem| problem.rule.is_safe()) => {
            io.hint("`--repair` repairs damage that can be repaired without data loss");
        }
        _ => {}
    }
}
