//! `config.md` and `config.schema.json`: every key, from the types that read it.

use std::collections::BTreeMap;

use sandbox_policy::Host;
use sandbox_policy::config::{Config, Network, Request, load, schema};
use serde_json::{Value, json};

use super::{code, table};

const INTRO: &str = "\
# Configuration

One schema, two syntaxes: JSON with comments and trailing commas, or TOML.

| layer | file | |
|---|---|---|
| built-in | the defaults below | |
| global | `$XDG_CONFIG_HOME/agent-sandbox/config.json`, `.jsonc` or `.toml`; else in `~/.config/agent-sandbox` | yours |
| project | `.agent-sandbox.json`, `.agent-sandbox.jsonc` or `sandbox.toml` in the working directory and the [directories above it](../how-to/monorepos.md), the outermost first; or the file of `--config` in place of them all | must be [trusted](../concepts/trust.md) to open anything |
| flags | the command line | |

Later layers win. Lists are concatenated, tables are merged by key, and a later single value replaces an earlier one.
Two files in one directory are an error. So are unknown keys, wrong types and files above 256 KiB. The message names
file, line and column.

For editors: [config.schema.json](config.schema.json), also printed by `agent-sandbox config schema`.
";

const ENFORCED: &str = "
## Keys that are enforced

Keys of sessions apply to `agent-sandbox up`. A single command ignores them, and a note says so.
";

#[test]
fn config_page_lists_every_key_of_the_schema() {
    let rows = keys(&schema(), &builtin())
        .into_iter()
        .map(|Key { path, value, default, meaning }| [code(&path), value, default, meaning]);
    let table = table(["key", "value", "default", "meaning"], rows.collect::<Vec<_>>());
    let text = format!("{INTRO}{ENFORCED}\n{table}");
    super::page("config.md", &text);
}

#[test]
fn schema_file_is_the_schema_of_the_types() {
    super::page("config.schema.json", &serde_json::to_string_pretty(&schema()).unwrap());
}

struct Key {
    path: String,
    value: String,
    default: String,
    meaning: String,
}

/// Returns every key. Keys of tables come after the table.
fn keys(schema: &Value, builtin: &Config) -> Vec<Key> {
    let mut found = Vec::new();
    collect(schema, schema, "", &mut found);
    for key in &mut found {
        key.default = default_of(&key.path, builtin).unwrap_or_else(|| key.default.clone());
    }
    found
}

fn collect(schema: &Value, root: &Value, prefix: &str, found: &mut Vec<Key>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let target = resolve(property, root);
        let text = |schema: &Value| Some(schema["description"].as_str()?.replace('\n', " "));
        let default =
            Some(&property["default"]).filter(|value| value.is_string() || value.is_boolean());
        let key = Key {
            path: format!("{prefix}{name}"),
            value: values(property, root),
            default: default.map_or_else(String::new, |value| code(&value.to_string())),
            meaning: text(property).or_else(|| text(target)).unwrap_or_default(),
        };
        let path = key.path.clone();
        found.push(key);
        below(target, root, &path, found);
    }
}

fn below(schema: &Value, root: &Value, path: &str, found: &mut Vec<Key>) {
    if std::ptr::eq(schema, root) {
        return;
    }
    collect(schema, root, &format!("{path}."), found);
    collect(resolve(&schema["additionalProperties"], root), root, &format!("{path}.NAME."), found);
    collect(resolve(&schema["items"], root), root, &format!("{path}[]."), found);
    for choice in schema["anyOf"].as_array().into_iter().flatten() {
        below(resolve(choice, root), root, path, found);
    }
}

fn resolve<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    match schema["$ref"].as_str() {
        Some("#") => root,
        Some(pointer) => resolve(root.pointer(pointer.trim_start_matches('#')).unwrap(), root),
        None => schema,
    }
}

/// Describes the allowed values in a few words.
fn values(schema: &Value, root: &Value) -> String {
    let schema = resolve(schema, root);
    if std::ptr::eq(schema, root) {
        return "a table of these keys".into();
    }
    let either = |choices: &[Value]| {
        let mut texts: Vec<_> = choices.iter().map(|choice| values(choice, root)).collect();
        texts.dedup();
        texts.join(" or ")
    };
    for key in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[key].as_array() {
            return either(choices);
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|word| code(&word.to_string())).collect::<Vec<_>>().join(" or ");
    }
    if !schema["const"].is_null() {
        return code(&schema["const"].to_string());
    }
    match &schema["type"] {
        Value::Array(types) => {
            types.iter().filter_map(Value::as_str).map(plain).collect::<Vec<_>>().join(" or ")
        }
        Value::String(name) if name == "array" => {
            format!("list of {}", values(&schema["items"], root))
        }
        Value::String(name) if name == "object" && schema["additionalProperties"].is_object() => {
            format!("table: `NAME` = {}", values(&schema["additionalProperties"], root))
        }
        Value::String(name) => plain(name).to_owned(),
        _ => String::new(),
    }
}

fn plain(name: &str) -> &str {
    match name {
        "string" => "text",
        "boolean" => "`true` or `false`",
        "integer" | "number" => "number",
        "object" => "table",
        other => other,
    }
}

/// Returns the built-in value, as a file would contain it.
fn default_of(path: &str, config: &Config) -> Option<String> {
    let rules = config.commands.iter().map(|(name, rule)| (name, &rule.value));
    let presets = config.presets.iter().map(|preset| &preset.value);
    let value = match path {
        "network" => json!(config.network.value == Network::On),
        "docker" => json!(config.docker.value),
        "tmp" => json!(config.tmp.value),
        "launcher" => json!(config.launcher.value),
        "commands" => json!(rules.collect::<BTreeMap<_, _>>()),
        "filesystem.presets" => json!(presets.collect::<Vec<_>>()),
        _ => return None,
    };
    Some(code(&value.to_string()))
}

/// Returns a configuration without any file.
fn builtin() -> Config {
    let empty = testkit::World::new();
    let host =
        Host { cwd: Some(empty.path("project")), home: None, env: BTreeMap::new(), ..Host::read() };
    load(&host, &Request::default()).unwrap()
}
