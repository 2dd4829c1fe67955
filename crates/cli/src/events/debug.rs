//! `--debug`: how each decision was reached, a few lines for each step.

use std::os::unix::ffi::OsStrExt;

use sandbox_core::Host;
use sandbox_core::backend::bwrap::{self, Word};
use sandbox_core::config::{GLOBAL_NAMES, Layer, PROJECT_NAMES};
use sandbox_core::path::Kind;
use sandbox_core::plan::{Plan, View};

use super::report::name;
use crate::ui::{Stdio, Tone, visible};

/// More lines of one kind than this help nobody.
const MOST: usize = 80;

/// One line.
pub(crate) fn line(step: &str, text: &str, io: &mut Stdio<'_>) {
    let label = io.err_tone(Tone::Quiet, &format!("debug: {step}:"));
    io.say(&format!("{label} {}", visible(text)));
}

/// Lines of one kind, and how many more there are.
fn lines(step: &str, texts: impl IntoIterator<Item = String>, rest: &str, io: &mut Stdio<'_>) {
    let texts: Vec<String> = texts.into_iter().collect();
    texts.iter().take(MOST).for_each(|text| line(step, text, io));
    if texts.len() > MOST {
        line(step, &format!("… and {} more; {rest}", texts.len() - MOST), io);
    }
}

/// The plan, step by step.
pub(crate) fn plan(plan: &Plan, host: &Host, io: &mut Stdio<'_>) {
    line("version", env!("CARGO_PKG_VERSION"), io);
    files(plan, host, io);
    merge(plan, io);
    resolution(plan, io);
    access(plan, io);
    for ruled in &plan.runtime.commands.rules {
        let targets: Vec<_> = ruled.targets.iter().map(|path| name(path)).collect();
        let covers =
            if targets.is_empty() { "nothing: not installed".into() } else { targets.join(" ") };
        line("command-wrappers", &format!("{} covers {covers}", ruled.name), io);
    }
    lines("bwrap-args", arguments(plan), "`--dry-run` prints them all", io);
}

fn files(plan: &Plan, host: &Host, io: &mut Stdio<'_>) {
    let config = &plan.config;
    if let Some(dir) = host.config_dir() {
        line(
            "config-find",
            &format!("looked for {} in {}", GLOBAL_NAMES.join(", "), name(&dir)),
            io,
        );
    }
    let cwd = name(&config.cwd);
    line("config-find", &format!("looked for {} in {cwd}", PROJECT_NAMES.join(", ")), io);
    if config.loaded.is_empty() {
        line("config-load", "no configuration file found", io);
    }
    for (layer, path) in &config.loaded {
        line("config-load", &format!("{} {}", layer_word(*layer), name(path)), io);
    }
}

fn layer_word(layer: Layer) -> &'static str {
    match layer {
        Layer::Builtin => "built-in",
        Layer::Global => "global",
        Layer::Project => "project",
        Layer::Flags => "flags",
    }
}

fn merge(plan: &Plan, io: &mut Stdio<'_>) {
    let config = &plan.config;
    let mut texts = vec![
        format!("network {:?} ({})", config.network.value, config.network.origin),
        format!("docker {} ({})", config.docker.value, config.docker.origin),
        format!("tmp {:?} ({})", config.tmp.value, config.tmp.origin),
        format!("launcher {:?} ({})", config.launcher.value, config.launcher.origin),
        format!("cow {:?} ({})", config.cow.value.engine, config.cow.origin),
    ];
    for entry in &config.hosts.entries {
        let list = entry.value.list.key();
        texts.push(format!("{list} {} ({})", entry.value.pattern, entry.origin));
    }
    for preset in &config.presets {
        texts.push(format!("preset {} ({})", preset.value, preset.origin));
    }
    texts.push(format!("presets on: {}", plan.presets.names().collect::<Vec<_>>().join(" ")));
    for (command, rule) in &config.commands {
        texts.push(format!("command {command} = {:?} ({})", rule.value, rule.origin));
    }
    let rule =
        |mark: &str, rule: &sandbox_core::config::Sourced<sandbox_core::config::PathRule>| {
            format!("{} {mark}{} ({})", rule.value.access.word(), rule.value.pattern, rule.origin)
        };
    texts.extend(config.paths.iter().map(|path| rule("", path)));
    texts.extend(config.unruled.iter().map(|path| rule("!", path)));
    lines("config-merge", texts, "`config show` lists them all", io);
}

/// Where the user's own lines lead. Of the presets only what exists is told, in the next step.
fn resolution(plan: &Plan, io: &mut Stdio<'_>) {
    let (resolved, missing) = plan.decisions.count();
    line("paths", &format!("{resolved} paths decided, {missing} that do not exist skipped"), io);
    let rules = plan
        .decisions
        .iter()
        .flat_map(|decision| std::iter::once(&decision.rule).chain(&decision.beaten));
    let own = rules.filter(|rule| rule.origin.layer() > Layer::Builtin || !rule.links.is_empty());
    let told =
        own.filter(|rule| rule.origin.layer() > Layer::Builtin || rule.kind != Kind::Missing);
    let texts = told.map(|rule| {
        let end = if rule.kind == Kind::Missing { ", which does not exist" } else { "" };
        let links = if rule.links.is_empty() { "" } else { " by way of symlinks" };
        format!("{} `{}` is {}{links}{end}", rule.access.word(), rule.pattern, name(&rule.path))
    });
    lines("paths", texts, "`config show` lists them all", io);
}

fn access(plan: &Plan, io: &mut Stdio<'_>) {
    let mounts = plan
        .mounts
        .iter()
        .map(|mount| format!("{} {} ({})", view(mount.view), name(&mount.target), mount.origin));
    lines("access", mounts, "`config show` lists them all", io);
    let apart = plan.cow.iter().flat_map(|cow| {
        cow.roots.iter().map(|root| format!("kept apart {} ({})", name(&root.target), cow.origin))
    });
    lines("access", apart, "`--dry-run --json` lists them all", io);
    let sockets = plan
        .sockets
        .iter()
        .map(|socket| format!("hidden {} (a socket that somebody listens on)", name(socket)));
    lines("access", sockets, "`config show` lists them all", io);
    let hidden = &plan.environment.hidden;
    let variables =
        hidden.iter().map(|variable| format!("hidden {} ({})", variable.name, variable.origin));
    lines("environment", variables, "`config show` lists them all", io);
}

fn view(view: View) -> &'static str {
    match view {
        View::ReadWrite => "rw",
        View::ReadOnly => "ro",
        View::Pin => "pinned",
        View::Device => "device",
        View::EmptyFile | View::EmptyDir => "hidden",
    }
}

/// One option with its values on each line.
fn arguments(plan: &Plan) -> Vec<String> {
    let arguments = bwrap::arguments(plan);
    let mut texts: Vec<String> = Vec::new();
    let mut modified = false;
    for word in &arguments.words {
        let text = match word {
            Word::Text(text) => name(std::path::Path::new(text)),
            Word::Data(index) => format!("<{}>", arguments.data[*index].name),
        };
        let option = matches!(word, Word::Text(text) if text.as_bytes().starts_with(b"--"));
        match texts.last_mut().filter(|_| !option || modified) {
            Some(last) => last.extend([" ", &text]),
            None => texts.push(text.clone()),
        }
        // `--perms` belongs to the option after it.
        modified = if option { text == "--perms" } else { modified };
    }
    texts
}
