//! `--debug`: the steps that led to a plan, a few lines for each.

use std::os::unix::ffi::OsStrExt;

use sandbox_linux::escape::name;

use crate::plan::{Plan, View};
use crate::render::bwrap::{self, Word};
use sandbox_policy::config::{GLOBAL_NAMES, Layer, PROJECT_NAMES, PathRule, Sourced};
use sandbox_policy::host::Host;
use sandbox_policy::path::Kind;

/// Maximum number of lines for one step.
const MAX_LINES: usize = 80;

/// Line about a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Name of the step.
    pub name: &'static str,
    /// The decision.
    pub text: String,
}

/// Returns the steps that led to a plan.
pub fn trace(plan: &Plan, host: &Host) -> Vec<Step> {
    let mut steps = Steps(Vec::new());
    steps.add("version", env!("CARGO_PKG_VERSION"));
    steps.files(plan, host);
    steps.merge(plan);
    steps.resolution(plan);
    steps.access(plan);
    steps.commands(plan);
    steps.list("bwrap-args", arguments(plan), "`--dry-run` prints them all");
    steps.0
}

struct Steps(Vec<Step>);

impl Steps {
    fn add(&mut self, name: &'static str, text: impl Into<String>) {
        self.0.push(Step { name, text: text.into() });
    }

    /// Adds the lines of a step. A long list is cut, with a line that says how to see the `rest`.
    fn list(&mut self, name: &'static str, texts: impl IntoIterator<Item = String>, rest: &str) {
        let texts: Vec<String> = texts.into_iter().collect();
        let more = texts.len().saturating_sub(MAX_LINES);
        texts.into_iter().take(MAX_LINES).for_each(|text| self.add(name, text));
        if more > 0 {
            self.add(name, format!("… and {more} more; {rest}"));
        }
    }

    fn files(&mut self, plan: &Plan, host: &Host) {
        let config = &plan.config;
        if let Some(dir) = host.config_dir() {
            self.add(
                "config-find",
                format!("looked for {} in {}", GLOBAL_NAMES.join(", "), name(&dir)),
            );
        }
        let cwd = name(&config.cwd);
        let names = PROJECT_NAMES.join(", ");
        self.add("config-find", format!("looked for {names} in {cwd} and above it"));
        if config.loaded.is_empty() {
            self.add("config-load", "no configuration file found");
        }
        for (layer, path) in &config.loaded {
            self.add("config-load", format!("{} {}", layer_word(*layer), name(path)));
        }
    }

    fn merge(&mut self, plan: &Plan) {
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
        let rule = |mark: &str, rule: &Sourced<PathRule>| {
            format!("{} {mark}{} ({})", rule.value.access.word(), rule.value.spelled(), rule.origin)
        };
        texts.extend(config.paths.iter().map(|path| rule("", path)));
        texts.extend(config.unruled.iter().map(|path| rule("!", path)));
        self.list("config-merge", texts, "`config show` lists them all");
    }

    /// Adds the paths of the user's rules. Rules of presets appear in the next step, if their paths exist.
    fn resolution(&mut self, plan: &Plan) {
        let (resolved, missing) = plan.decisions.count();
        self.add("paths", format!("{resolved} paths decided, {missing} that do not exist skipped"));
        let rules = plan
            .decisions
            .iter()
            .flat_map(|decision| std::iter::once(&decision.rule).chain(&decision.beaten));
        let own =
            rules.filter(|rule| rule.origin.layer() > Layer::Builtin || !rule.links.is_empty());
        let shown =
            own.filter(|rule| rule.origin.layer() > Layer::Builtin || rule.kind != Kind::Missing);
        let texts = shown.map(|rule| {
            let end = if rule.kind == Kind::Missing { ", which does not exist" } else { "" };
            let links = if rule.links.is_empty() { "" } else { " through symlinks" };
            format!("{} `{}` is {}{links}{end}", rule.access.word(), rule.pattern, name(&rule.path))
        });
        self.list("paths", texts, "`config show` lists them all");
    }

    fn access(&mut self, plan: &Plan) {
        let mounts = plan.mounts.iter().map(|mount| {
            format!("{} {} ({})", view(mount.view), name(&mount.target), mount.origin)
        });
        self.list("access", mounts, "`config show` lists them all");
        let cow = plan.cow.iter().flat_map(|cow| {
            cow.roots
                .iter()
                .map(|root| format!("copy-on-write {} ({})", name(&root.target), cow.origin))
        });
        self.list("access", cow, "`--dry-run --json` lists them all");
        let sockets = plan
            .sockets
            .iter()
            .map(|socket| format!("hidden {} (a listening socket)", name(socket)));
        self.list("access", sockets, "`config show` lists them all");
        let hidden = &plan.environment.hidden;
        let variables =
            hidden.iter().map(|variable| format!("hidden {} ({})", variable.name, variable.origin));
        self.list("environment", variables, "`config show` lists them all");
    }

    fn commands(&mut self, plan: &Plan) {
        for ruled in &plan.runtime.commands.rules {
            let targets: Vec<_> = ruled.targets.iter().map(|path| name(path)).collect();
            let covers = if targets.is_empty() {
                "nothing: not installed".into()
            } else {
                targets.join(" ")
            };
            self.add("command-wrappers", format!("{} covers {covers}", ruled.name));
        }
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

fn view(view: View) -> &'static str {
    match view {
        View::ReadWrite => "rw",
        View::ReadOnly => "ro",
        View::Pin => "pinned",
        View::Device => "device",
        View::EmptyFile | View::EmptyDir => "hidden",
    }
}

/// Returns bubblewrap's arguments, one option with its values on each line.
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
