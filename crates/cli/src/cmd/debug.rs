//! `--debug`: how each decision was reached, a few lines for each step.

use sandbox_core::plan::{Plan, View};

use super::report::name;
use crate::ui::{Stdio, Tone, visible};

/// One line.
pub(crate) fn line(step: &str, text: &str, io: &mut Stdio<'_>) {
    let label = io.err_tone(Tone::Quiet, &format!("debug: {step}:"));
    io.say(&format!("{label} {}", visible(text)));
}

/// The plan, step by step.
pub(crate) fn plan(plan: &Plan, io: &mut Stdio<'_>) {
    let config = &plan.config;
    line("version", env!("CARGO_PKG_VERSION"), io);
    if config.loaded.is_empty() {
        line("config-load", "no configuration file found", io);
    }
    for (layer, path) in &config.loaded {
        line("config-load", &format!("{layer:?} {}", path.display()).to_lowercase(), io);
    }
    line(
        "config-merge",
        &format!("network {:?} ({})", config.network.value, config.network.origin),
        io,
    );
    line("config-merge", &format!("docker {} ({})", config.docker.value, config.docker.origin), io);
    line(
        "config-merge",
        &format!("presets {}", plan.presets.names().collect::<Vec<_>>().join(" ")),
        io,
    );
    for (command, rule) in &config.commands {
        line(
            "config-merge",
            &format!("command {command} = {:?} ({})", rule.value, rule.origin),
            io,
        );
    }
    paths(plan, io);
    for ruled in &plan.runtime.commands.rules {
        let targets: Vec<_> = ruled.targets.iter().map(|path| name(path)).collect();
        line("command-wrappers", &format!("{} covers {}", ruled.name, targets.join(" ")), io);
    }
    let words = sandbox_core::backend::bwrap::arguments(plan).words.len();
    line("bwrap-args", &format!("{words} words; `--dry-run` prints them"), io);
}

fn paths(plan: &Plan, io: &mut Stdio<'_>) {
    let (resolved, missing) = plan.decisions.count();
    line("paths", &format!("{resolved} paths decided, {missing} that do not exist skipped"), io);
    for mount in &plan.mounts {
        let view = match mount.view {
            View::ReadWrite => "rw",
            View::ReadOnly => "ro",
            View::Pin => "pinned",
            View::Device => "device",
            View::EmptyFile | View::EmptyDir => "hidden",
        };
        line("access", &format!("{view} {} ({})", name(&mount.target), mount.origin), io);
    }
    for socket in &plan.sockets {
        line("access", &format!("hidden {} (a socket that somebody listens on)", name(socket)), io);
    }
    for variable in &plan.environment.hidden {
        line("environment", &format!("hidden {} ({})", variable.name, variable.origin), io);
    }
}
