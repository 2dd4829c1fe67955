//! Sessions in containers: what is to be made, said before it is made.

use std::collections::BTreeMap;

use sandbox_control::backend::BackendError;
use sandbox_control::backend::docker::Docker;
use sandbox_control::session::{BackendKind, Name, NewSession};
use sandbox_core::backend::docker::{Container, Exception};
use sandbox_core::config::{Config, Request};

use crate::args::Flags;
use crate::run::Failed;
use crate::ui::{Stdio, Tone, visible};

/// What a session is to be; what it gets beyond the least is said, each with its reason.
pub(crate) fn look_ahead(
    name: Option<Name>,
    request: &Request,
    config: &Config,
    docker: &Docker,
    io: &mut Stdio<'_>,
) -> Result<(NewSession, Container), Failed> {
    let plan = docker.plan(config).map_err(failed)?;
    for note in &plan.notes {
        io.labelled(Tone::Warning, "note", &visible(note));
    }
    for granted in granted(&plan.exceptions) {
        io.labelled(Tone::Warning, "granted", &visible(&granted));
    }
    let request = serde_json::to_string(request).map_err(|error| Failed::new(error, None))?;
    let new = NewSession {
        name,
        project: config.cwd.clone(),
        backend: BackendKind::Docker,
        request,
        policy: plan.policy_hash(),
        cow: !plan.layers.is_empty(),
    };
    Ok((new, plan))
}

/// A line for each reason, in their order.
fn granted(exceptions: &[Exception]) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    let mut what: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for exception in exceptions {
        let origin = exception.origin.as_ref().map(|origin| format!(" ({origin})"));
        let why = format!("{}{}", exception.why, origin.unwrap_or_default());
        if !what.contains_key(&why) {
            order.push(why.clone());
        }
        what.entry(why).or_default().push(&exception.what);
    }
    let line = |why: String| format!("{}: {why}", what[&why].join(", "));
    order.into_iter().map(line).collect()
}

/// The whole plan, for whoever wants to read it.
pub(crate) fn show(plan: &Container, flags: &Flags, io: &mut Stdio<'_>) -> Result<u8, Failed> {
    let text =
        if flags.json { serde_json::to_string(plan) } else { serde_json::to_string_pretty(plan) };
    let text = text.map_err(|error| Failed::new(error, None))?;
    io.data(&format!("{text}\n"));
    Ok(0)
}

fn failed(error: BackendError) -> Failed {
    let hint = error.hint.clone();
    Failed::new(error, hint)
}
