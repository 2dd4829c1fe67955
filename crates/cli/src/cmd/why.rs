//! `why`: explains the rule for a path, host, command or variable, and how to change it.

use sandbox_core::plan::plan_config;
use sandbox_core::why::page::{Accent, Text};
use sandbox_core::why::{Explained, Explainer};
use sandbox_policy::Host;
use sandbox_policy::config::Request;
use serde::Serialize;

use crate::args::{Flags, Why};
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone};

/// Answers from the plan. Inside a sandbox, answers from the description of that sandbox.
pub(crate) fn run(flags: &Flags, why: &Why, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let request = super::request(flags, Vec::new(), host)?;
    if host.inside {
        if shapes(&request) {
            io.note("the flags are for a new sandbox; the answer is about the current one");
        }
        return ask(&Explainer::around(host)?, flags, why, io);
    }
    let config = super::load(host, &request, io)?;
    let plan = plan_config(host, config, Vec::new())?;
    ask(&Explainer::of_plan(host, &request, &plan), flags, why, io)
}

fn shapes(request: &Request) -> bool {
    !request.paths.is_empty()
        || !request.commands.is_empty()
        || !request.env.is_empty()
        || request.network.is_some()
        || !request.hosts.is_empty()
        || request.docker.is_some()
        || request.config.is_some()
}

fn ask(explainer: &Explainer<'_>, flags: &Flags, why: &Why, io: &mut Stdio<'_>) -> Outcome {
    if let Some(path) = &why.path {
        show(flags, &explainer.path(path)?, io);
    } else if let Some(host) = &why.host {
        show(flags, &explainer.host(host)?, io);
    } else if let Some(command) = &why.command {
        show(flags, &explainer.command(command)?, io);
    } else if let Some(variable) = &why.variable {
        show(flags, &explainer.variable(variable)?, io);
    }
    Ok(0)
}

fn show<A: Serialize + Text>(flags: &Flags, explained: &Explained<A>, io: &mut Stdio<'_>) {
    if flags.json {
        return super::json(explained, io);
    }
    let text = explained.text(&|accent, text| io.tone(tone(accent), text));
    io.data(&text);
}

fn tone(accent: Accent) -> Tone {
    match accent {
        Accent::Strong => Tone::Strong,
        Accent::Quiet => Tone::Quiet,
        Accent::Good => Tone::Good,
        Accent::Warning => Tone::Warning,
        Accent::Bad => Tone::Bad,
    }
}
