//! Settings that a session was brought up with, and their differences from another request's.

use std::collections::BTreeMap;

use sandbox_linux::escape::cut;
use sandbox_linux::hex;
use sandbox_policy::config::Request;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Key of a setting's origin.
const ORIGIN: &str = "origin";
/// Keys whose values may be secrets. Only their hashes are recorded.
const HASHED: [&str; 2] = ["env", "files"];
/// Maximum number of differences in a message.
const MOST: usize = 20;
/// Maximum length of a value in a message.
const LONGEST: usize = 120;

/// Settings by key. A list has several values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings(BTreeMap<String, Vec<String>>);

/// Recorded request, with the settings that it resolved to.
#[derive(Deserialize)]
struct Recorded {
    settings: Option<Settings>,
}

impl Settings {
    /// Flattens a configuration or a plan to dotted keys. Origins are dropped, and so are the keys
    /// in `left_out`, which derive from others.
    pub fn of(plan: &impl Serialize, left_out: &[&str]) -> serde_json::Result<Self> {
        let mut settings = Self::default();
        let mut plan = serde_json::to_value(plan)?;
        if let Value::Object(map) = &mut plan {
            map.retain(|key, _| !left_out.contains(&key.as_str()));
        }
        settings.take("", plan, false);
        Ok(settings)
    }

    /// Adds a setting.
    #[must_use]
    pub fn with(mut self, key: &str, values: impl IntoIterator<Item = String>) -> Self {
        let values: Vec<String> = values.into_iter().collect();
        if !values.is_empty() {
            self.0.insert(key.to_owned(), values);
        }
        self
    }

    /// Encodes a request with these settings for the database.
    pub fn record(&self, request: &Request) -> serde_json::Result<String> {
        let mut text = serde_json::to_value(request)?;
        text["settings"] = serde_json::to_value(self)?;
        Ok(text.to_string())
    }

    /// Decodes the settings of a recorded request. Earlier versions wrote none.
    pub(crate) fn recall(request: &str) -> Option<Self> {
        serde_json::from_str::<Recorded>(request).ok()?.settings
    }

    fn take(&mut self, key: &str, value: Value, hashed: bool) {
        match value {
            Value::Object(map) => {
                // An object with an origin stands for its value. `OsString` serializes as `{"Unix":
                // [bytes]}`.
                let single = map.contains_key(ORIGIN) || map.contains_key("Unix");
                for (name, value) in map {
                    if name == ORIGIN {
                        continue;
                    }
                    let below = match (key, single) {
                        ("", _) => name.clone(),
                        (_, true) => key.to_owned(),
                        (_, false) => format!("{key}.{name}"),
                    };
                    self.take(&below, value, hashed || HASHED.contains(&name.as_str()));
                }
            }
            Value::Array(list) if hashed => self.add(key, hash(&Value::Array(list))),
            Value::Array(list) => list.into_iter().for_each(|value| self.add(key, line(&value))),
            Value::Null if !hashed => {}
            value if hashed => self.add(key, hash(&value)),
            value => self.add(key, line(&value)),
        }
    }

    fn add(&mut self, key: &str, value: String) {
        self.0.entry(key.to_owned()).or_default().push(value);
    }

    /// Lists what `new` would change, one line per setting.
    pub(crate) fn differences(&self, new: &Self) -> Vec<String> {
        let keys = self.0.keys().chain(new.0.keys().filter(|key| !self.0.contains_key(*key)));
        let mut lines: Vec<String> = keys
            .flat_map(|key| {
                let values = |of: &Self| of.0.get(key).cloned().unwrap_or_default();
                difference(key, &values(self), &values(new))
            })
            .collect();
        if lines.len() > MOST {
            let more = format!("and {} more", lines.len() - MOST);
            lines.truncate(MOST);
            lines.push(more);
        }
        lines
    }
}

fn difference(key: &str, old: &[String], new: &[String]) -> Vec<String> {
    if old == new {
        return Vec::new();
    }
    let shown_key = escaped(key);
    if HASHED.contains(&key.split('.').next().unwrap_or_default()) {
        let word = match (old.is_empty(), new.is_empty()) {
            (true, _) => "added",
            (_, true) => "removed",
            _ => "changed",
        };
        return vec![format!("{shown_key}: {word}")];
    }
    if let ([] | [_], [] | [_]) = (old, new) {
        let value = |of: &[String]| of.first().map_or_else(|| "none".into(), |text| escaped(text));
        return vec![format!("{shown_key}: {} → {}", value(old), value(new))];
    }
    let only = |one: &[String], other: &[String], sign: char| {
        let missing = one.iter().filter(|value| !other.contains(value));
        missing.map(|value| format!("{shown_key}: {sign} {}", escaped(value))).collect::<Vec<_>>()
    };
    let mut lines = only(old, new, '-');
    lines.extend(only(new, old, '+'));
    if lines.is_empty() {
        lines.push(format!("{shown_key}: order changed"));
    }
    lines
}

/// Formats an element of a list on one line: the values of a rule or a mount, without their keys.
fn line(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(line).collect::<Vec<_>>().join(" "),
        Value::Object(map) => {
            let words = map.iter().filter(|(key, _)| *key != ORIGIN);
            words.map(|(_, value)| line(value)).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

fn hash(value: &Value) -> String {
    use sha2::{Digest, Sha256};
    hex::encode(&Sha256::digest(value.to_string().as_bytes()))
}

/// Escapes text of a configuration for a terminal.
fn escaped(text: &str) -> String {
    cut(text, LONGEST, |letter, text| text.extend(letter.escape_debug()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(value: &Value) -> Settings {
        Settings::of(value, &["loaded"]).unwrap()
    }

    #[test]
    fn differences_ignore_origins() {
        let sourced =
            |value: Value, line: u32| json!({"value": value, "origin": format!("f:{line}")});
        let rule = |pattern: &str| json!({"access": "rw", "pattern": pattern});
        let old = json!({"network": sourced(json!("off"), 1), "paths": [sourced(rule("a"), 2), sourced(rule("b"), 3)]});
        for (why, new, expected) in [
            ("the same", old.clone(), vec![]),
            (
                "other lines",
                json!({"network": sourced(json!("off"), 7), "paths": [sourced(rule("a"), 8), sourced(rule("b"), 9)], "loaded": ["x"]}),
                vec![],
            ),
            (
                "one value",
                json!({"network": sourced(json!("on"), 1), "paths": [sourced(rule("a"), 2), sourced(rule("b"), 3)]}),
                vec!["network: off → on"],
            ),
            (
                "a list",
                json!({"network": sourced(json!("off"), 1), "paths": [sourced(rule("a"), 2), sourced(rule("c\u{1b}"), 3)]}),
                vec!["paths: - rw b", "paths: + rw c\\u{1b}"],
            ),
            (
                "the order of a list",
                json!({"network": sourced(json!("off"), 1), "paths": [sourced(rule("b"), 2), sourced(rule("a"), 3)]}),
                vec!["paths: order changed"],
            ),
            (
                "a new key",
                json!({"network": sourced(json!("off"), 1), "paths": old["paths"], "cow": {"engine": "on"}}),
                vec!["cow.engine: none → on"],
            ),
        ] {
            assert_eq!(settings(&old).differences(&settings(&new)), expected, "{why}");
        }
    }

    #[test]
    fn differences_hide_values_of_variables() {
        let env = |value: &str| json!({"env": {"TOKEN": {"value": {"Unix": value.as_bytes()}, "origin": "flag"}}});
        let (old, new) = (settings(&env("secret")), settings(&env("other")));
        assert_eq!(old.differences(&new), ["env.TOKEN: changed"]);
        assert_eq!(old.differences(&settings(&env("secret"))), Vec::<String>::new());
        assert_eq!(old.differences(&Settings::default()), ["env.TOKEN: removed"]);
        // A variable that is passed through is a setting, too.
        let through = settings(&json!({"env": {"TOKEN": {"value": null, "origin": "flag"}}}));
        assert_eq!(Settings::default().differences(&through), ["env.TOKEN: added"]);
        let text = serde_json::to_string(&old).unwrap();
        assert!(!text.contains("secret") && !text.contains("115,101,99"), "{text}");
        // Docker plans hold variables as plain text.
        let plain = settings(&json!({"env": {"TOKEN": "secret"}}));
        assert!(!serde_json::to_string(&plain).unwrap().contains("secret"));
    }

    #[test]
    fn recall_reads_settings_back_when_the_request_has_them() {
        let settings = settings(&json!({"network": "off"}));
        let text = settings.record(&Request::default()).unwrap();
        assert_eq!(Settings::recall(&text), Some(settings));
        assert!(Request::recall(&text).is_ok());
        let older = serde_json::to_string(&Request::default()).unwrap();
        assert_eq!(Settings::recall(&older), None);
    }
}
