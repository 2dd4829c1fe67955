//! Types for every key of the configuration. `serde` parses them, and `schemars` generates their schema.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use super::at::At;
use super::container::{ImageName, RuntimeName};
use super::cow::CowEngine;
use super::host_commands::HostCommands;
use super::mount::{MountText, SharedDirs};
use super::network::NetworkText;
use super::resources::Resources;
use super::session::{AgentConfig, Home, Proxy, Secret, Services, Workspace};
use super::word::{
    CommandName, EnvName, FilePath, Invalid, Label, PathText, PresetToggle, Scalar, scalar,
};
use crate::config::command_rule::{CommandRule, CommandRuleText};
use crate::config::{Launcher, Tmp};

/// A configuration file. Keys that are not set are `None` or empty.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
#[schemars(title = "agent-sandbox")]
pub struct FileConfig {
    /// The JSON Schema of this file, for editors.
    #[serde(rename = "$schema")]
    pub schema: Option<Label>,
    /// Files that the command can see and change.
    pub filesystem: Filesystem,
    /// Rules for commands, by name: `true` runs the command, `false` blocks it, `"@git"` is the built-in wrapper for
    /// git, and any other string is the path of a script to run instead.
    pub commands: BTreeMap<CommandName, At<Rule>>,
    /// Hosts that the command can reach.
    pub network: Option<At<NetworkText>>,
    /// Shares the Docker daemon's socket with the local sandbox.
    pub docker: Option<At<bool>>,
    /// `/tmp` that the command sees: a private one, or the host's.
    pub tmp: Option<At<Tmp>>,
    /// Replacement for commands that have a rule: this binary, or a shell script.
    pub launcher: Option<At<Launcher>>,
    /// Unix sockets that the command can connect to. `!PATH` removes one of an earlier layer.
    pub sockets: Vec<At<PathText>>,
    /// Copy-on-write: changes go into a layer until they are applied.
    pub cow: Option<At<CowEngine>>,
    /// Bind mounts. Host paths are absolute or start with `~/`.
    pub mounts: Vec<At<MountText>>,
    /// Bind mounts by name, read-write by default. Host paths are relative to this file.
    pub shared_dirs: Option<At<SharedDirs>>,
    /// Credentials that the proxy adds to requests, or that the agent gets.
    pub secrets: BTreeMap<Label, At<Secret>>,
    /// The backend that runs a session.
    pub backend: Option<At<BackendKind>>,
    /// The image of a container session.
    pub image: Option<At<ImageName>>,
    /// The container runtime, such as `"runsc"`. Default: that of the engine.
    pub runtime: Option<At<RuntimeName>>,
    /// The agent of a session.
    pub agent: Option<At<AgentConfig>>,
    /// Variables: a string sets one, `true` passes the caller's value even if it looks like a credential.
    pub env: BTreeMap<EnvName, At<EnvValue>>,
    /// A file of `NAME=VALUE` lines.
    pub env_file: Option<At<FilePath>>,
    /// Limits of a session.
    pub resources: Option<At<Resources>>,
    /// The credential proxy.
    pub proxy: Option<At<Proxy>>,
    /// The working copy that a container session gets.
    pub workspace: Option<At<Workspace>>,
    /// The home that a container session gets.
    pub home: Option<At<Home>>,
    /// Services that run beside the agent in a container session.
    pub services: Option<At<Services>>,
    /// Commands that a container can run on the host.
    pub host_commands: Option<At<HostCommands>>,
    /// Table that can contain all other keys.
    pub sandbox: Option<At<Nested>>,
}

/// Marker for the use of `sandbox`. The keys below it have been moved up.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
pub struct Nested {}

impl JsonSchema for Nested {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Nested".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "$ref": "#" })
    }
}

/// Path rules. A path is relative to the working directory, `~/` is the home directory, `*`, `?`, `[…]` and `**` are
/// wildcards, and `!PATH` removes the same line of an earlier layer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct Filesystem {
    /// Presets, in order: `@name` turns one on, `!@name` turns it off.
    pub presets: Vec<At<PresetToggle>>,
    /// Readable, but not writable.
    pub ro: Vec<At<PathText>>,
    /// Readable and writable.
    pub rw: Vec<At<PathText>>,
    /// Not visible.
    pub exclude: Vec<At<PathText>>,
}

/// A command rule.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
pub struct Rule(#[schemars(with = "CommandRuleText")] pub CommandRule);

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text =
            match scalar(deserializer, "`true`, `false`, `\"@git\"` or the path of a script")? {
                Scalar::Switch(on) => CommandRuleText::Switch(on),
                Scalar::Word(word) if word.trim().is_empty() || word.contains('\0') => {
                    return Err(Invalid::new(
                        "the path of the script is empty or contains a NUL byte",
                    )
                    .into_serde());
                }
                Scalar::Word(word) => CommandRuleText::Name(word),
            };
        text.try_into().map(Self).map_err(de::Error::custom)
    }
}

/// The value of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// The caller's value.
    Pass,
    /// This value.
    Set(String),
}

impl<'de> Deserialize<'de> for EnvValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting = "a string, or `true` to pass the caller's value";
        match scalar(deserializer, expecting)? {
            Scalar::Switch(true) => Ok(Self::Pass),
            Scalar::Switch(false) => {
                Err(de::Error::invalid_type(de::Unexpected::Bool(false), &expecting))
            }
            Scalar::Word(text) if text.contains('\0') => {
                Err(Invalid::new("the value contains a NUL byte").into_serde())
            }
            Scalar::Word(text) => Ok(Self::Set(text)),
        }
    }
}

impl JsonSchema for EnvValue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EnvValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "const": true }] })
    }
}

/// Backend that runs a session.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Backend")]
pub enum BackendKind {
    /// Namespaces on this machine.
    Bwrap,
    /// A container.
    Docker,
}

impl BackendKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Bwrap, Self::Docker];

    /// Returns the word for it in configurations and session records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bwrap => "bwrap",
            Self::Docker => "docker",
        }
    }

    /// Returns true for backends that run an image instead of the host's programs.
    pub fn is_container(self) -> bool {
        self != Self::Bwrap
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
