//! Columns of the table of providers.

use std::fmt;

use sandbox_protocol::Hint;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use super::super::hosts::HostPreset;
use super::PROVIDERS;
use crate::text::{did_you_mean, shown};

/// A model API that a secret can belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// Name in configuration files.
    pub name: &'static str,
    /// Name of the API in messages.
    pub api: &'static str,
    /// Server of the API.
    pub upstream: Upstream,
    /// Header that carries the key.
    pub key: KeyHeader,
    /// Keys that are login tokens, and belong to another row.
    pub login_keys: LoginKeys,
    /// Headers that the proxy adds to every request.
    pub headers: &'static [Header],
    /// Requests that an agent may send, unless the secret has `routes`.
    pub routes: &'static [&'static str],
    /// Variables that carry its keys and tokens, in order of the agents' preference.
    pub key_variables: &'static [&'static str],
    /// Prefixes of its variables. A variable with such a prefix and the name of a secret carries a key.
    pub prefixes: &'static [&'static str],
    /// Variables that reach a command although they have the name of a secret. A final `*` matches any text.
    pub passed_variables: &'static [&'static str],
    /// Variables that tell agents and SDKs the server, each with the path to append to the address.
    pub addresses: &'static [(&'static str, &'static str)],
    /// Agents that learn the server by other means than these variables.
    pub agents: &'static [AgentAddress],
    /// Request that `secret test` sends.
    pub test: TestRequest,
    /// Hosts, for `allowed_hosts`.
    pub hosts: Hosts,
    /// Names of the token counts in its responses.
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
    /// The server of `upstream_url`.
    Configured,
}

/// The header that carries a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// The provider needs no key.
    None,
    /// A header. `{}` in the format is the key.
    Header {
        /// Name of the header.
        name: &'static str,
        /// Value of the header.
        format: &'static str,
    },
}

/// Keys that are sent like those of another provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginKeys {
    /// The provider has no such keys.
    None,
    /// Keys with this prefix.
    Begin {
        /// Prefix of the key.
        with: &'static str,
        /// Name of the other provider.
        provider: &'static str,
    },
}

/// A header that the proxy sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Name of the header.
    pub name: &'static str,
    /// Value of the header.
    pub value: &'static str,
    /// Combination with the client's header.
    pub merge: Merge,
}

/// Combination of a header with one of the same name that the client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// The header replaces the client's.
    Replace,
    /// The value is added to the client's list.
    AddToList,
}

/// Provider in the settings of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentAddress {
    /// Program of the agent, as in its row.
    pub agent: &'static str,
    /// Name of the provider, or of its kind of key, in the agent's settings.
    pub name: &'static str,
    /// Path to append to the proxy's address.
    pub path: &'static str,
}

/// A request that is free and allowed for every account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestRequest {
    /// Path of the `GET` request.
    pub path: &'static str,
    /// Headers of the request.
    pub headers: &'static [(&'static str, &'static str)],
}

/// Hosts of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// The provider has no host preset.
    None,
    /// The host preset.
    Preset(HostPreset),
}

/// Names of token counts, in JSON bodies and in event streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that the model read.
    pub input: &'static [&'static str],
    /// Tokens that the model wrote.
    pub output: &'static [&'static str],
    /// Tokens of the provider's cache that are not part of the input. Each name is counted separately.
    pub cached: &'static [&'static str],
}

/// Tools that a request can offer to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tools {
    /// Tools that the provider runs.
    pub own: OwnTools,
    /// Types of tools that the client runs, or that have no effect outside the model.
    pub client: &'static [&'static str],
    /// Fields for such tools that have no type.
    pub client_fields: &'static [&'static str],
    /// Fields for the provider's tools that have no type.
    pub fields: &'static [&'static str],
}

/// Tools that a provider runs on request: search, fetch or code execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnTools {
    /// None are known. The server may not be a model API.
    None,
    /// The provider has some. The proxy removes them in a sandbox without an open network.
    Some,
}

/// Name of an unknown provider.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("unknown provider `{0}`")]
pub struct UnknownProvider(pub String);

impl Hint for UnknownProvider {
    /// Returns the most similar provider, or a list of all.
    fn hint(&self) -> Option<String> {
        let known = || PROVIDERS.iter().map(|provider| provider.name);
        let all = || format!("providers: {}", known().collect::<Vec<_>>().join(", "));
        Some(did_you_mean(&self.0, known()).unwrap_or_else(all))
    }
}

impl Provider {
    /// Returns the provider with this name.
    pub fn named(name: &str) -> Result<&'static Self, UnknownProvider> {
        let found = PROVIDERS.iter().find(|provider| provider.name == name);
        found.ok_or_else(|| UnknownProvider(name.to_owned()))
    }

    /// Returns the provider whose key a variable carries.
    pub(crate) fn of_variable(variable: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|provider| provider.key_variables.contains(&variable))
    }

    /// Returns the provider whose server is configured by `upstream_url`.
    pub fn custom() -> Option<&'static Self> {
        PROVIDERS.iter().find(|provider| provider.upstream == Upstream::Configured)
    }

    /// Returns the provider to which this key belongs. The prefix of the key tells API keys from login tokens.
    pub fn for_key(&'static self, key: &str) -> &'static Self {
        match self.login_keys {
            LoginKeys::Begin { with, provider } if key.starts_with(with) => {
                Self::named(provider).unwrap_or(self)
            }
            LoginKeys::Begin { .. } | LoginKeys::None => self,
        }
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
            // In serde errors, the hint is on the second line.
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
