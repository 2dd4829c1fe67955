//! The columns of a provider's row.

use std::fmt;

use sandbox_protocol::Hint;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use super::super::hosts::HostPreset;
use super::PROVIDERS;
use crate::text::{did_you_mean, shown};

/// A server of models that a secret can belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// Its name in configurations.
    pub name: &'static str,
    /// Its server.
    pub upstream: Upstream,
    /// How it receives the key.
    pub key: KeyHeader,
    /// Keys that are tokens of a login, and belong to another row.
    pub login_keys: LoginKeys,
    /// Headers that every request needs.
    pub headers: &'static [Header],
    /// Requests that an agent may send unless a secret names others.
    pub routes: &'static [&'static str],
    /// Variables that carry its keys and tokens, in the order in which agents prefer them.
    pub key_variables: &'static [&'static str],
    /// First parts of its variables. A variable that begins so and has the name of a secret carries a key.
    pub prefixes: &'static [&'static str],
    /// Variables that reach a command although they have the name of a secret; `*` ends a pattern.
    pub passed_variables: &'static [&'static str],
    /// Variables that name the server to agents and SDKs, each with the path that follows the address.
    pub addresses: &'static [(&'static str, &'static str)],
    /// Agents that read no such variable, or not only that.
    pub agents: &'static [AgentAddress],
    /// The request of `secret test`.
    pub test: TestRequest,
    /// Its hosts, for `allowed_hosts`.
    pub hosts: Hosts,
    /// Names under which its responses count tokens.
    pub usage: Usage,
    /// Tools that a request can offer to a model.
    pub tools: Tools,
}

/// The server of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upstream {
    /// A server on the internet, never in a private network.
    Public(&'static str),
    /// A server on this machine.
    Local(&'static str),
    /// None: `upstream_url` names it.
    Configured,
}

/// The header that carries a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// The provider needs no key.
    None,
    /// A header; `{}` in the format is the key.
    Header {
        /// Its name.
        name: &'static str,
        /// Its value.
        format: &'static str,
    },
}

/// Keys that are sent in the way of another provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginKeys {
    /// There are none.
    None,
    /// Keys that begin so.
    Begin {
        /// First characters of the key.
        with: &'static str,
        /// Name of the other provider.
        provider: &'static str,
    },
}

/// A header that the proxy sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: &'static str,
    /// How it combines with the client's.
    pub merge: Merge,
}

/// How a header combines with one of the same name that the client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// It replaces the client's.
    Replace,
    /// It is added to the client's list.
    AddToList,
}

/// A provider as one agent's settings name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentAddress {
    /// Program of the agent, as its row has it.
    pub agent: &'static str,
    /// Name of the provider, or of its kind of key, in the agent's settings.
    pub name: &'static str,
    /// Path that follows the proxy's address.
    pub path: &'static str,
}

/// A request that every account may send and that costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestRequest {
    /// Path of a `GET`.
    pub path: &'static str,
    /// Headers that it needs.
    pub headers: &'static [(&'static str, &'static str)],
}

/// Hosts of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// No preset names them.
    None,
    /// A preset of hosts.
    Preset(HostPreset),
}

/// Names of token counts, in JSON and in events alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that the model read.
    pub input: &'static [&'static str],
    /// Tokens that it wrote.
    pub output: &'static [&'static str],
    /// Tokens of the provider's cache that are not part of the input; each name counts separately.
    pub cached: &'static [&'static str],
}

/// Tools that a request can offer to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tools {
    /// Whether the provider runs tools of its own.
    pub own: OwnTools,
    /// Types of tools that the client runs, or that reach nothing but the model.
    pub client: &'static [&'static str],
    /// Tools of that kind that are fields without a type.
    pub client_fields: &'static [&'static str],
    /// Tools of the provider that are fields without a type.
    pub fields: &'static [&'static str],
}

/// Whether a provider searches, fetches or runs code when a request asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnTools {
    /// It may be no provider of models at all.
    None,
    /// It does; a closed network takes these tools away.
    Some,
}

/// A name that no provider has.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("unknown provider `{0}`")]
pub struct UnknownProvider(pub String);

impl Hint for UnknownProvider {
    /// Names the nearest provider, else all of them.
    fn hint(&self) -> Option<String> {
        let known = || PROVIDERS.iter().map(|provider| provider.name);
        let all = || format!("the providers are {}", known().collect::<Vec<_>>().join(", "));
        Some(did_you_mean(&self.0, known()).unwrap_or_else(all))
    }
}

impl Provider {
    /// Returns the provider of this name.
    pub fn named(name: &str) -> Result<&'static Self, UnknownProvider> {
        let found = PROVIDERS.iter().find(|provider| provider.name == name);
        found.ok_or_else(|| UnknownProvider(name.to_owned()))
    }

    /// Returns the provider whose key a variable carries.
    pub fn of_variable(variable: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|provider| provider.key_variables.contains(&variable))
    }

    /// Returns the provider whose server the configuration names.
    pub fn custom() -> Option<&'static Self> {
        PROVIDERS.iter().find(|provider| provider.upstream == Upstream::Configured)
    }

    /// Returns the row by which this key is sent: a token of a login begins differently.
    pub fn for_key(&'static self, key: &str) -> &'static Self {
        match self.login_keys {
            LoginKeys::Begin { with, provider } if key.starts_with(with) => {
                Self::named(provider).unwrap_or(self)
            }
            LoginKeys::Begin { .. } | LoginKeys::None => self,
        }
    }

    /// Returns how an agent's settings name it, if they can.
    pub fn for_agent(&self, program: &str) -> Option<&'static AgentAddress> {
        self.agents.iter().find(|row| row.agent == program)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<'de> Deserialize<'de> for &'static Provider {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Provider::named(&name).map_err(|error| {
            // The hint follows on a second line, as all hints in errors of serde do.
            let (name, hint) = (shown(&name), error.hint().unwrap_or_default());
            de::Error::custom(format_args!("unknown provider {name}\n{hint}"))
        })
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl JsonSchema for Provider {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Provider".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}
