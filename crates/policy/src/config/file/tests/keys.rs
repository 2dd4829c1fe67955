//! Every key of the schema refuses wrong values when a file is read, with the line and the key. A new key is tested
//! without an entry here.

use serde_json::{Value, json};

use super::*;

/// Step from a value to one inside it.
#[derive(Clone)]
enum Step {
    Field(String),
    /// Value of a table whose keys are names.
    Named,
    Item,
}

/// A key of the schema: the steps to it, and all forms of its values.
struct Key {
    steps: Vec<Step>,
    forms: Vec<Value>,
}

impl Key {
    /// Returns a file in which this key has a value.
    fn file(&self, value: Value) -> Value {
        self.steps.iter().rev().fold(value, |value, step| match step {
            Step::Field(name) => json!({ name.as_str(): value }),
            Step::Named => json!({ "NAME": value }),
            Step::Item => json!([value]),
        })
    }

    fn takes(&self, kind: &str) -> bool {
        self.forms.iter().any(|form| match &form["type"] {
            Value::String(known) => known == kind,
            Value::Array(known) => known.iter().any(|known| known == kind),
            _ => words(form).any(|word| kind_of(word) == kind),
        })
    }

    /// Returns values that the key must refuse.
    fn wrong(&self) -> Vec<Value> {
        let mut wrong = vec![Value::Null];
        for (kind, value) in [
            ("boolean", json!(true)),
            ("string", json!("x")),
            ("array", json!([])),
            ("object", json!({})),
        ] {
            wrong.extend((!self.takes(kind)).then_some(value));
        }
        wrong.push(if self.takes("integer") || self.takes("number") {
            json!(-1)
        } else {
            json!(1)
        });
        wrong.push(if self.takes("number") { json!(-0.5) } else { json!(1.5) });
        if self.takes("string") {
            // No name, path, host or argument contains a NUL byte. A key whose type is a plain string would accept it.
            wrong.push(json!("\0"));
        }
        for form in &self.forms {
            match (form["type"].as_str(), form["additionalProperties"].is_boolean()) {
                (Some("array"), _) => wrong.push(json!([null])),
                (Some("object"), true) => wrong.push(json!({ "no-such-key": 1 })),
                (Some("object"), false) => wrong.push(json!({ "\0": null })),
                _ => {}
            }
        }
        wrong
    }
}

/// Returns the words that a schema lists.
fn words(form: &Value) -> impl Iterator<Item = &Value> {
    form["enum"].as_array().into_iter().flatten().chain(form.get("const"))
}

fn kind_of(word: &Value) -> &'static str {
    if word.is_boolean() { "boolean" } else { "string" }
}

/// Returns the schemas that a value can match, with references resolved.
fn forms(root: &Value, schema: &Value) -> Vec<Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        return forms(root, root.pointer(reference.trim_start_matches('#')).unwrap());
    }
    let parts = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema[key].as_array());
    let parts: Vec<Value> = parts.flatten().flat_map(|part| forms(root, part)).collect();
    if parts.is_empty() { vec![schema.clone()] } else { parts }
}

fn collect(root: &Value, schema: &Value, steps: &[Step], keys: &mut Vec<Key>) {
    let forms = forms(root, schema);
    let mut enter = |step: Step, schema: &Value| {
        // `sandbox` can contain all keys.
        if schema["$ref"] != "#" {
            collect(root, schema, &[steps, &[step]].concat(), keys);
        }
    };
    for form in &forms {
        for (name, schema) in form["properties"].as_object().into_iter().flatten() {
            enter(Step::Field(name.clone()), schema);
        }
        if form["additionalProperties"].is_object() {
            enter(Step::Named, &form["additionalProperties"]);
        }
        if form["items"].is_object() {
            enter(Step::Item, &form["items"]);
        }
    }
    keys.push(Key { steps: steps.to_vec(), forms });
}

/// Returns the TOML text of a value. TOML has no `null`.
fn inline(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(inline).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| {
                Some(format!("{} = {}", json!(key), inline(value)?))
            };
            let fields: Option<Vec<String>> = fields.iter().map(field).collect();
            format!("{{ {} }}", fields?.join(", "))
        }
        other => other.to_string(),
    })
}

/// Returns the file in both syntaxes, with the value on line 3.
fn texts(file: &Value, top: &str) -> Vec<(Syntax, String)> {
    let mut texts = vec![(Syntax::Jsonc, format!("// first\n\n{file}"))];
    let toml = inline(&file[top]).map(|value| format!("# first\n\n{} = {value}", json!(top)));
    texts.extend(toml.map(|text| (Syntax::Toml, text)));
    texts
}

#[test]
fn parse_refuses_wrong_values_of_every_key_with_line_and_key() {
    let schema = crate::config::schema();
    let mut keys = Vec::new();
    collect(&schema, &schema, &[], &mut keys);
    keys.retain(|key| !key.steps.is_empty());
    let (mut tried, mut faults) = (0, Vec::new());
    for key in &keys {
        let Step::Field(top) = &key.steps[0] else { panic!("a file is a table") };
        for file in key.wrong().into_iter().map(|wrong| key.file(wrong)) {
            for (syntax, text) in texts(&file, top) {
                tried += 1;
                match parse(&text, syntax, Path::new("f")) {
                    Ok(_) => faults.push(format!("accepted: {text}")),
                    Err(error) if error.position.line != 3 || !error.to_string().contains(top) => {
                        faults.push(format!("{error}: {text}"));
                    }
                    Err(_) => {}
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(keys.len() > 90 && tried > 1000, "{} keys, {tried} files", keys.len());
}
