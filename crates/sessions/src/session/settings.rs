//! The settings that a session was brought up with, to tell what another request would change.

use std::collections::BTreeMap;

use sandbox_linux::escape::cut;
use sandbox_linux::hex;
use sandbox_policy::config::Request;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The key that says where a setting was written.
const ORIGIN: &str = "origin";
/// Keys whose values may be secrets: their hashes are kept.
const HASHED: [&str; 2] = ["env", "files"];
/// The most differences that a message lists.
const MOST: usize = 20;
/// The longest value that a message shows.
const LONGEST: usize = 120;

/// Settings by key; a list has several values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings(BTreeMap<String, Vec<String>>);

/// A request on record, with the settings that it came to.
#[derive(Deserialize)]
struct Recorded {
    settings: Option<Settings>,
}

impl Settings {
    /// Flattens a configuration or a plan: its keys with dots, without origins and without the keys
    /// in `left_out`, which follow from others.
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

    /// Writes a request for the record, with these settings beside it.
    pub fn record(&self, request: &Request) -> serde_json::Result<String> {
        let mut text = serde_json::to_value(request)?;
        text["settings"] = serde_json::to_value(self)?;
        Ok(text.to_string())
    }

    /// Reads the settings of a request on record; earlier versions wrote none.
    pub(crate) fn recall(request: &str) -> Option<Self> {
        serde_json::from_str::<Recorded>(request).ok()?.settings
    }

    fn take(&mut self, key: &str, value: Value, hashed: bool) {
        match value {
            Value::Object(map) => {
                // A value with its origin is that value; what the kernel counts as text is bytes.
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

    /// Lists what `new` would change, a line for each setting.
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
            _ => "another value",
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
        lines.push(format!("{shown_key}: another order"));
    }
    lines
}

/// An element of a list on one line: the words of a rule or a mount, without their keys.
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

/// Text of a configuration, as a terminal may show it.
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
    fn differences_name_what_changes_and_not_where_it_is_written() {
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
                vec!["paths: another order"],
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
    fn variables_are_compared_and_never_shown() {
        let env = |value: &str| json!({"env": {"TOKEN": {"value": {"Unix": value.as_bytes()}, "origin": "flag"}}});
        let (old, new) = (settings(&env("secret")), settings(&env("other")));
        assert_eq!(old.differences(&new), ["env.TOKEN: another value"]);
        assert_eq!(old.differences(&settings(&env("secret"))), Vec::<String>::new());
        assert_eq!(old.differences(&Settings::default()), ["env.TOKEN: removed"]);
        // One that is let through is a setting, too.
        let through = settings(&json!({"env": {"TOKEN": {"value": null, "origin": "flag"}}}));
        assert_eq!(Settings::default().differences(&through), ["env.TOKEN: added"]);
        let text = serde_json::to_string(&old).unwrap();
        assert!(!text.contains("secret") && !text.contains("115,101,99"), "{text}");
        // Containers have theirs as text.
        let plain = settings(&json!({"env": {"TOKEN": "secret"}}));
        assert!(!serde_json::to_string(&plain).unwrap().contains("secret"));
    }

    #[test]
    fn settings_are_read_back_from_a_request_and_a_request_without_them() {
        let settings = settings(&json!({"network": "off"}));
        let text = settings.record(&Request::default()).unwrap();
        assert_eq!(Settings::recall(&text), Some(settings));
        assert!(Request::recall(&text).is_ok());
        let older = serde_json::to_string(&Request::default()).unwrap();
        assert_eq!(Settings::recall(&older), None);
    }
}
