//! Entry of a list of allowed commands: the words that a request must begin with, and the arguments that may follow.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess};
use serde::{Deserialize as DeserializeDerive, Serialize, Serializer};
use thiserror::Error;

use super::line;
use crate::text::shown;

/// An allowed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The words that a request must begin with, the program's name first.
    pub words: Vec<String>,
    /// Arguments that may follow.
    pub args: Args,
    /// Patterns of arguments that are refused.
    pub deny: Vec<String>,
    /// Working directory on the host. It overrides the request.
    pub cwd: Option<PathBuf>,
    /// Variables that it gets.
    pub env: BTreeMap<String, String>,
    /// Time limit in seconds.
    pub timeout: Option<u64>,
    /// Paths that the arguments may name.
    pub paths: Paths,
    /// True if the user accepted that the tool can run arbitrary programs.
    pub risk_accepted: bool,
}

/// Arguments that may follow the words of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Args {
    /// Anything that the rules of the tool allow.
    #[default]
    Any,
    /// Nothing.
    None,
    /// Words that match one of these patterns, in which `*` matches any text.
    Only(Vec<String>),
}

/// Paths that the arguments of a command may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, DeserializeDerive, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Paths {
    /// Paths that the container shares with the host. They are translated to the host's paths.
    #[default]
    Confine,
    /// Any path. Words are passed unchanged.
    Any,
}

/// Text that is not a valid entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid allowed command {}: {why}", shown(.text))]
pub struct EntryError {
    text: String,
    why: String,
}

impl Entry {
    /// Parses a command such as `git status`.
    pub fn parse(text: &str) -> Result<Self, EntryError> {
        let wrong = |why: String| EntryError { text: text.to_owned(), why };
        let words = line::parse(text.as_bytes()).map_err(|error| wrong(error.to_string()))?;
        let words: Vec<String> =
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let name = &words[0];
        if name.starts_with('-') {
            return Err(wrong("it starts with an option".into()));
        }
        if name.contains('/') && !name.starts_with('/') {
            return Err(wrong("the program must be a name or an absolute path".into()));
        }
        if name.contains('=') {
            return Err(wrong("set variables with `env`, not before the command".into()));
        }
        Ok(Self::of(words))
    }

    fn of(words: Vec<String>) -> Self {
        Self {
            words,
            args: Args::Any,
            deny: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            timeout: None,
            paths: Paths::Confine,
            risk_accepted: false,
        }
    }

    /// Returns true when a request begins with the words of this entry.
    pub fn covers(&self, argv: &[OsString]) -> bool {
        argv.len() >= self.words.len()
            && self.words.iter().zip(argv).all(|(word, asked)| asked == OsStr::new(word))
    }

    /// Returns the first argument that this entry refuses, with the reason.
    pub fn refusal(&self, rest: &[OsString]) -> Option<(OsString, &'static str)> {
        let first = |test: &dyn Fn(&OsString) -> bool| rest.iter().find(|word| test(word)).cloned();
        let denied = first(&|word| self.deny.iter().any(|pattern| matches(pattern, word)));
        if let Some(word) = denied {
            return Some((word, "it is among the denied arguments"));
        }
        match &self.args {
            Args::Any => None,
            Args::None => Some((rest.first()?.clone(), "this command takes no arguments")),
            Args::Only(patterns) => {
                let word = first(&|word| !patterns.iter().any(|pattern| matches(pattern, word)));
                Some((word?, "it is not among the allowed arguments"))
            }
        }
    }

    /// Describes the arguments that may follow, and how the command runs.
    pub fn meaning(&self) -> String {
        let list = |patterns: &[String]| patterns.join(" ");
        let mut parts = vec![match &self.args {
            Args::Any => "any arguments".to_owned(),
            Args::None => "no arguments".to_owned(),
            Args::Only(patterns) => format!("arguments {}", list(patterns)),
        }];
        if !self.deny.is_empty() {
            parts.push(format!("never {}", list(&self.deny)));
        }
        parts.push(match self.paths {
            Paths::Confine => "shared paths only".to_owned(),
            Paths::Any => "any path".to_owned(),
        });
        parts.extend(self.cwd.as_ref().map(|dir| format!("in {}", dir.display())));
        if !self.env.is_empty() {
            let names: Vec<String> = self.env.keys().cloned().collect();
            parts.push(format!("with {}", list(&names)));
        }
        parts.extend(self.timeout.map(|seconds| format!("at most {seconds} s")));
        parts.join(", ")
    }

    /// Returns the words as a command line.
    pub fn text(&self) -> String {
        line::quote(&self.words).unwrap_or_else(|_| self.words.join(" "))
    }
}

/// Returns true when a pattern, in which `*` matches any text, matches a whole word.
pub fn matches(pattern: &str, word: &OsStr) -> bool {
    let mut parts = pattern.as_bytes().split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = word.as_bytes().strip_prefix(first) else { return false };
    let parts: Vec<&[u8]> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle.iter().filter(|part| !part.is_empty()) {
        let found = rest.windows(part.len()).position(|window| window == *part);
        let Some(at) = found else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// An entry that is written as a table.
#[derive(DeserializeDerive, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Table {
    /// The command: the words that a request must begin with.
    cmd: String,
    /// Arguments that may follow: `"any"`, `"none"`, or a list of patterns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args: Option<ArgsText>,
    /// Patterns of arguments that are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deny: Vec<String>,
    /// Working directory on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<PathBuf>,
    /// Variables that it gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    /// Time limit in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    /// `"any"` also allows paths that the container does not share with the host.
    #[serde(default)]
    paths: Paths,
    /// `"accepted"` for a tool that can run arbitrary programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    risk: Option<Risk>,
}

#[derive(DeserializeDerive, Serialize, JsonSchema)]
#[serde(untagged)]
enum ArgsText {
    Word(ArgsWord),
    Only(Vec<String>),
}

#[derive(DeserializeDerive, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ArgsWord {
    Any,
    None,
}

#[derive(DeserializeDerive, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Risk {
    Accepted,
}

impl Table {
    fn has_nul(&self) -> bool {
        let patterns = match &self.args {
            Some(ArgsText::Only(patterns)) => patterns.as_slice(),
            _ => &[],
        };
        let variables = self.env.iter().flat_map(|(name, value)| [name, value]);
        let mut texts = self.deny.iter().chain(patterns).chain(variables);
        let cwd = self.cwd.as_ref().map(|cwd| cwd.as_os_str().as_bytes());
        texts.any(|text| text.contains('\0')) || cwd.is_some_and(|cwd| cwd.contains(&0))
    }
}

impl TryFrom<Table> for Entry {
    type Error = EntryError;

    fn try_from(table: Table) -> Result<Self, EntryError> {
        let entry = Self::parse(&table.cmd)?;
        let wrong = |why: &str| EntryError { text: table.cmd.clone(), why: why.into() };
        if table.cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
            return Err(wrong("`cwd` must be an absolute path on the host"));
        }
        if table.has_nul() {
            return Err(wrong("it contains a NUL byte"));
        }
        if table.env.keys().any(|name| name.is_empty() || name.contains('=')) {
            return Err(wrong("`env` has an invalid variable name"));
        }
        if table.timeout == Some(0) {
            return Err(wrong("`timeout` must be at least 1 second"));
        }
        let args = match table.args {
            None | Some(ArgsText::Word(ArgsWord::Any)) => Args::Any,
            Some(ArgsText::Word(ArgsWord::None)) => Args::None,
            Some(ArgsText::Only(patterns)) => Args::Only(patterns),
        };
        Ok(Self {
            words: entry.words,
            args,
            deny: table.deny,
            cwd: table.cwd,
            env: table.env,
            timeout: table.timeout,
            paths: table.paths,
            risk_accepted: table.risk.is_some(),
        })
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let args = match &self.args {
            Args::Any => None,
            Args::None => Some(ArgsText::Word(ArgsWord::None)),
            Args::Only(patterns) => Some(ArgsText::Only(patterns.clone())),
        };
        let table = Table {
            cmd: self.text(),
            args,
            deny: self.deny.clone(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            timeout: self.timeout,
            paths: self.paths,
            risk: self.risk_accepted.then_some(Risk::Accepted),
        };
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a command such as `\"git status\"`, or a table with `cmd`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Entry, E> {
                Entry::parse(text).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Entry, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                Entry::try_from(table).map_err(de::Error::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Entry {
    fn schema_name() -> Cow<'static, str> {
        "AllowedCommand".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<Table>();
        json_schema!({ "anyOf": [{ "type": "string", "examples": ["git status"] }, table] })
    }
}
