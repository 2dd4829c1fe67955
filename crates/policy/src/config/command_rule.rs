//! Command rules, in their written form and as values.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Rule for a command of this name when the sandboxed process runs it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "CommandRuleText", into = "CommandRuleText")]
pub enum CommandRule {
    /// The program itself.
    Raw,
    /// The command fails with a message and exit code 1.
    Block,
    /// A wrapper that is built into this binary.
    Builtin(Builtin),
    /// A script of the user.
    Script(PathBuf),
}

/// A wrapper that is built into this binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    /// `@git`: git without commands that destroy work.
    Git,
}

/// Unknown name after `@`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown command preset `@{}`, the only one is `@git`", .0.escape_debug())]
pub struct UnknownBuiltin(pub String);

impl FromStr for Builtin {
    type Err = UnknownBuiltin;

    fn from_str(name: &str) -> Result<Self, UnknownBuiltin> {
        match name {
            "git" => Ok(Self::Git),
            other => Err(UnknownBuiltin(other.to_owned())),
        }
    }
}

/// Written form of a rule: `true`, `false`, `"@preset"` or `"script"`.
#[derive(Debug, Clone, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum CommandRuleText {
    /// `true` or `false`.
    Switch(bool),
    /// A preset or a path.
    Name(String),
}

impl FromStr for CommandRule {
    type Err = UnknownBuiltin;

    /// Parses the value of `--cmd NAME=…`.
    fn from_str(text: &str) -> Result<Self, UnknownBuiltin> {
        Self::try_from(match text {
            "true" => CommandRuleText::Switch(true),
            "false" => CommandRuleText::Switch(false),
            name => CommandRuleText::Name(name.to_owned()),
        })
    }
}

impl TryFrom<CommandRuleText> for CommandRule {
    type Error = UnknownBuiltin;

    fn try_from(text: CommandRuleText) -> Result<Self, UnknownBuiltin> {
        Ok(match text {
            CommandRuleText::Switch(true) => Self::Raw,
            CommandRuleText::Switch(false) => Self::Block,
            CommandRuleText::Name(name) => match name.strip_prefix('@') {
                Some(builtin) => Self::Builtin(builtin.parse()?),
                None => Self::Script(name.into()),
            },
        })
    }
}

impl From<CommandRule> for CommandRuleText {
    fn from(rule: CommandRule) -> Self {
        match rule {
            CommandRule::Raw => Self::Switch(true),
            CommandRule::Block => Self::Switch(false),
            CommandRule::Builtin(Builtin::Git) => Self::Name("@git".into()),
            CommandRule::Script(path) => Self::Name(path.to_string_lossy().into_owned()),
        }
    }
}
