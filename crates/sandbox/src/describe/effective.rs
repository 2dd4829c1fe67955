//! `config show`: every effective value of a plan, and its origin.

use std::path::Path;

use sandbox_linux::escape::{name, one_line};
use serde_json::{Value, json};

use crate::plan::{Plan, View};
use crate::specificity::Decision;
use sandbox_policy::config::command_rule::CommandRule;
use sandbox_policy::config::{Access, HostList, Origin, SecretMode, Tmp};
use sandbox_policy::path::Kind;
use sandbox_policy::preset::NAMES;
use sandbox_policy::variable::Hidden;

/// Name, value and origin, escaped for a terminal.
pub type Rows = Vec<[String; 3]>;

/// Returns every effective value with its origin, under a title for each kind.
pub fn sections(plan: &Plan) -> Vec<(&'static str, Rows)> {
    vec![
        ("settings", settings(plan)),
        ("hosts", hosts(plan)),
        ("presets", presets(plan)),
        ("commands", commands(plan)),
        ("writable", paths(plan, Access::Rw)),
        ("read-only", paths(plan, Access::Ro)),
        ("hidden", paths(plan, Access::Exclude)),
        ("hidden listening sockets", sockets(plan)),
        ("opened sockets", opened(plan)),
        ("mounts", mounts(plan)),
        ("secrets", secrets(plan)),
        ("variables", variables(plan)),
        ("hidden variables", hidden_variables(plan)),
        ("removed rules", removed_rules(plan)),
        ("no effect on a single command", skipped(plan)),
    ]
}

fn row(first: impl Into<String>, second: impl Into<String>, origin: &Origin) -> [String; 3] {
    [one_line(&first.into()), one_line(&second.into()), one_line(&origin.to_string())]
}

fn settings(plan: &Plan) -> Rows {
    let config = &plan.config;
    let network = config.network.value.word();
    let tmp = if config.tmp.value == Tmp::Private { "private" } else { "host" };
    let docker = if config.docker.value { "on" } else { "off" };
    let launcher = format!("{:?}", config.launcher.value).to_lowercase();
    let cow = format!("{:?}", config.cow.value.engine).to_lowercase();
    let mut rows = vec![["cwd".to_owned(), name(&config.cwd), String::new()]];
    rows.extend(
        config.loaded.iter().map(|(layer, path)| {
            ["file".to_owned(), name(path), format!("{layer:?}").to_lowercase()]
        }),
    );
    rows.extend([
        row("network", network, &config.network.origin),
        row("docker", docker, &config.docker.origin),
        row("tmp", tmp, &config.tmp.origin),
        row("launcher", launcher, &config.launcher.origin),
        row("cow", cow, &config.cow.origin),
    ]);
    rows
}

/// Returns the credentials: the variable of each, and if the command or the proxy holds it.
fn secrets(plan: &Plan) -> Rows {
    let rows = plan.config.secrets.iter().map(|(name, secret)| {
        let variable = secret.value.env_var.as_str();
        let how = match secret.value.mode {
            SecretMode::Inject => format!("the command holds it as {variable}"),
            SecretMode::Proxy => format!("the proxy holds it; {variable} is a token"),
        };
        row(name.as_str(), how, &secret.origin)
    });
    rows.collect()
}

/// Returns the lists of hosts, if the network is limited by one.
fn hosts(plan: &Plan) -> Rows {
    let entries = plan.config.hosts.entries.iter().filter(|_| plan.egress.is_some());
    let rows = entries.map(|entry| {
        let list = match entry.value.list {
            HostList::Allowed => "allowed",
            HostList::Private => "allowed, also private addresses",
            HostList::Denied => "denied",
        };
        let preset = entry.value.preset.map(|name| format!(", {name}")).unwrap_or_default();
        row(entry.value.pattern.to_string(), format!("{list}{preset}"), &entry.origin)
    });
    let limit = plan.config.upload_limit.iter().filter(|_| plan.egress.is_some());
    let limit = limit.map(|limit| {
        row(
            "upload_limit",
            format!("{} bytes to the hosts of each entry", limit.value),
            &limit.origin,
        )
    });
    rows.chain(limit).collect()
}

/// Returns the origin of the last toggle for a preset: of the preset, or of one that includes it.
fn preset_origin(plan: &Plan, preset: &str) -> String {
    let concerns = |toggle: &str| {
        let name = toggle.trim_start_matches('!');
        name == preset
            || (name == "@all" && preset != "@git-strict")
            || (name == "@lint/all" && preset.starts_with("@lint/"))
            || (name == "@git-strict" && preset == "@git")
    };
    let last = plan.config.presets.iter().rev().find(|toggle| concerns(&toggle.value));
    last.map_or_else(|| Origin::Default.to_string(), |toggle| toggle.origin.to_string())
}

fn preset_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMES.iter().copied().filter(|(name, _)| !matches!(*name, "@all" | "@lint/all"))
}

fn presets(plan: &Plan) -> Rows {
    let rows = preset_names().map(|(name, _)| {
        let on = if plan.presets.has(name) { "on" } else { "off" };
        [name.to_owned(), on.to_owned(), one_line(&preset_origin(plan, name))]
    });
    rows.collect()
}

fn rule_word(rule: &CommandRule) -> String {
    match rule {
        CommandRule::Raw => "raw".to_owned(),
        CommandRule::Block => "blocked".to_owned(),
        CommandRule::Builtin(_) => "@git".to_owned(),
        CommandRule::Script(path) => path.display().to_string(),
    }
}

fn commands(plan: &Plan) -> Rows {
    let rows = plan.runtime.commands.rules.iter().map(|ruled| {
        let targets = match ruled.targets.as_slice() {
            [] => "not installed".to_owned(),
            [one] => one.display().to_string(),
            [first, rest @ ..] => format!("{} and {} more", first.display(), rest.len()),
        };
        row(&ruled.name, format!("{}  {targets}", rule_word(&ruled.rule.value)), &ruled.rule.origin)
    });
    rows.collect()
}

fn existing(plan: &Plan) -> impl Iterator<Item = &Decision> {
    plan.decisions.iter().filter(|decision| decision.rule.kind != Kind::Missing)
}

fn view(plan: &Plan, path: &Path) -> Option<View> {
    plan.mounts.iter().find(|mount| mount.target == path).map(|mount| mount.view)
}

fn view_word(view: Option<View>) -> &'static str {
    match view {
        Some(View::ReadWrite) => "writable",
        Some(View::ReadOnly) => "read-only",
        Some(View::Pin) => "pinned",
        Some(View::Device) => "device",
        Some(View::EmptyFile) => "empty file",
        Some(View::EmptyDir) => "empty directory",
        None => "as its parent",
    }
}

fn paths(plan: &Plan, access: Access) -> Rows {
    let decisions = existing(plan).filter(|decision| decision.rule.access == access);
    let rows = decisions.map(|decision| {
        let rule = &decision.rule;
        let view = view_word(view(plan, &rule.path));
        let by = if rule.pattern == rule.path.display().to_string() {
            rule.origin.to_string()
        } else {
            format!("{} `{}`", rule.origin, rule.pattern)
        };
        [name(&rule.path), view.to_owned(), name(Path::new(&by))]
    });
    rows.collect()
}

fn sockets(plan: &Plan) -> Rows {
    let rows =
        plan.sockets.iter().map(|path| row(path.display().to_string(), "", &Origin::Default));
    rows.collect()
}

fn opened(plan: &Plan) -> Rows {
    plan.config.sockets.iter().map(|socket| row(&socket.value, "", &socket.origin)).collect()
}

fn mounts(plan: &Plan) -> Rows {
    let rows = plan.config.mounts.iter().map(|mount| {
        let source = format!("{} {}", mount.value.access.word(), mount.value.host.display());
        row(mount.value.target.display().to_string(), source, &mount.origin)
    });
    rows.collect()
}

fn variables(plan: &Plan) -> Rows {
    let own = plan.environment.own.iter().filter(|(name, _)| !plan.config.env.contains_key(*name));
    let own = own.map(|(name, own)| row(name, "set", &own.origin));
    let asked = plan.config.env.iter().map(|(name, rule)| {
        row(name, if rule.value.is_some() { "set" } else { "passed on" }, &rule.origin)
    });
    own.chain(asked).collect()
}

fn hidden_variables(plan: &Plan) -> Rows {
    let rows = plan.environment.hidden.iter().map(|variable| {
        let why = match variable.why {
            Hidden::Credential => "looks like a credential",
            Hidden::Socket => "names a hidden socket",
            Hidden::Injecting => "makes programs run other code",
        };
        row(&variable.name, why, &variable.origin)
    });
    rows.collect()
}

fn removed_rules(plan: &Plan) -> Rows {
    let rules = plan.config.unruled.iter();
    rules.map(|rule| row(rule.value.spelled(), rule.value.access.word(), &rule.origin)).collect()
}

fn skipped(plan: &Plan) -> Rows {
    let keys = plan.config.skipped.iter();
    keys.map(|key| row(&key.value, "for sessions", &key.origin)).collect()
}

/// Returns [`sections`] as JSON, without the values of variables, which are private to the user.
pub fn to_json(plan: &Plan) -> Value {
    let config = &plan.config;
    let text = |path: &Path| path.display().to_string();
    let presets = preset_names().map(|(name, _)| {
        json!({ "name": name, "on": plan.presets.has(name), "origin": preset_origin(plan, name) })
    });
    let paths = existing(plan).map(|decision| {
        let rule = &decision.rule;
        let beaten: Vec<Value> = decision.beaten.iter().map(|rule| {
            json!({ "access": rule.access, "pattern": rule.pattern, "origin": rule.origin })
        }).collect();
        json!({
            "path": text(&rule.path), "access": rule.access, "kind": rule.kind, "view": view(plan, &rule.path),
            "pattern": rule.pattern, "origin": rule.origin, "beaten": beaten,
        })
    });
    let env = config.env.iter().map(
        |(name, rule)| json!({ "name": name, "set": rule.value.is_some(), "origin": rule.origin }),
    );
    json!({
        "cwd": text(&config.cwd),
        "files": config.loaded.iter().map(|(layer, path)| json!({ "layer": layer, "path": text(path) })).collect::<Vec<_>>(),
        "network": config.network,
        "hosts": config.hosts,
        "upload_limit": config.upload_limit,
        "docker": config.docker,
        "tmp": config.tmp,
        "launcher": config.launcher,
        "cow": config.cow,
        "presets": presets.collect::<Vec<_>>(),
        "commands": plan.runtime.commands.rules,
        "paths": paths.collect::<Vec<_>>(),
        "sockets": { "open": config.sockets, "hidden": plan.sockets.iter().map(|path| text(path)).collect::<Vec<_>>() },
        "mounts": config.mounts,
        "env": env.collect::<Vec<_>>(),
        "hidden_variables": plan.environment.hidden,
        "taken_back": config.unruled,
        "skipped": config.skipped,
        "notes": plan.notes,
    })
}
