//! `network`: one type for all its written forms.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess};

use super::at::At;
use super::resources::Memory;
use super::word::{HostText, Invalid};
use crate::config::Network;
use crate::text::shown;

/// `network`, in any of its forms.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(untagged)]
pub enum NetworkText {
    /// `true` is the host's network, `false` turns the network off.
    Switch(bool),
    /// A mode by its name.
    Mode(NetworkMode),
    /// A mode with lists of hosts.
    Table(NetworkTable),
}

/// `none`, `host`, `bridge`, `allow`, or the name of a Docker network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkMode {
    /// No network.
    None,
    /// The host's network.
    Host,
    /// Docker's bridge.
    Bridge,
    /// Only listed hosts.
    Allow,
    /// A Docker network.
    Named(String),
}

/// The long form of `network`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
pub struct NetworkTable {
    /// The mode. Default with a list of hosts: `allow`.
    pub mode: Option<NetworkMode>,
    /// Hosts that can be reached: `NAME`, `*.NAME` for all subdomains, or an address, each with an optional `:PORT`, or
    /// a preset such as `@npm`. `!` removes a line of an earlier layer. An empty list allows nothing.
    pub allowed_hosts: Option<Vec<At<HostText>>>,
    /// Hosts that can be reached even if they resolve to a private network or to this machine.
    pub private_hosts: Option<Vec<At<HostText>>>,
    /// Hosts that cannot be reached, even if another list allows them.
    pub denied_hosts: Option<Vec<At<HostText>>>,
    /// Limit on the data that a run may send to the hosts of each line, including the overhead of TLS: `"512k"`,
    /// `"10m"`, or bytes.
    pub upload_limit: Option<At<Memory>>,
}

impl NetworkText {
    /// Returns the network of the local sandbox, or `None` for a mode that only containers have.
    pub fn local(&self) -> Option<Network> {
        match self {
            Self::Switch(true) | Self::Mode(NetworkMode::Host) => Some(Network::On),
            Self::Switch(false) | Self::Mode(NetworkMode::None) => Some(Network::Off),
            Self::Table(NetworkTable { mode: Some(mode), .. }) => Self::Mode(mode.clone()).local(),
            Self::Mode(NetworkMode::Allow) | Self::Table(_) => Some(Network::Allow),
            Self::Mode(NetworkMode::Bridge | NetworkMode::Named(_)) => None,
        }
    }
}

impl NetworkTable {
    fn has_lists(&self) -> bool {
        [&self.allowed_hosts, &self.private_hosts, &self.denied_hosts]
            .iter()
            .any(|list| list.is_some())
    }

    /// Refuses lists in a mode that does not enforce them.
    fn check(&self) -> Result<(), Invalid> {
        let mode = match self.mode {
            Some(NetworkMode::None) => "none",
            Some(NetworkMode::Host) => "host",
            Some(NetworkMode::Bridge) => "bridge",
            Some(NetworkMode::Named(ref name)) => name,
            _ => return Ok(()),
        };
        let what = match (self.has_lists(), &self.upload_limit) {
            (true, _) => "lists of hosts",
            (false, Some(_)) => "`upload_limit`",
            (false, None) => return Ok(()),
        };
        Err(Invalid::new(format!("the mode `{mode}` does not use {what}"))
            .hint("remove `mode`; with a list of hosts, the default is `allow`"))
    }
}

impl<'de> Deserialize<'de> for NetworkMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        Ok(match name.as_str() {
            "none" => Self::None,
            "host" => Self::Host,
            "bridge" => Self::Bridge,
            "allow" => Self::Allow,
            // Modes of the engine have these names.
            "default" => return Err(not_a_network(&name)),
            _ if ["container", "ns"].iter().any(|mode| name.starts_with(mode)) => {
                return Err(not_a_network(&name));
            }
            _ if name.starts_with(|c: char| c.is_ascii_alphanumeric())
                && name.chars().all(letters) =>
            {
                Self::Named(name)
            }
            _ => return Err(super::word::unknown("network", &name, &["none", "host", "bridge"])),
        })
    }
}

fn not_a_network<E: de::Error>(name: &str) -> E {
    Invalid::new(format!("{} is not the name of a network", shown(name)))
        .hint("use a network that `docker network ls` lists, or `none`, `host` or `bridge`")
        .into_serde()
}

impl JsonSchema for NetworkMode {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NetworkMode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`none`, `host`, `bridge`, `allow`, or the name of a Docker network",
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$",
            "examples": ["none", "host", "bridge", "allow"],
        })
    }
}

impl<'de> Deserialize<'de> for NetworkText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = NetworkText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false`, a mode or a table")
            }

            fn visit_bool<E: de::Error>(self, on: bool) -> Result<NetworkText, E> {
                Ok(NetworkText::Switch(on))
            }

            fn visit_str<E: de::Error>(self, mode: &str) -> Result<NetworkText, E> {
                let mode: de::value::StrDeserializer<'_, E> =
                    de::IntoDeserializer::into_deserializer(mode);
                NetworkMode::deserialize(mode).map(NetworkText::Mode)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NetworkText, A::Error> {
                let table = NetworkTable::deserialize(MapAccessDeserializer::new(map))?;
                if table.mode.is_none() && !table.has_lists() {
                    return Err(de::Error::missing_field("mode"));
                }
                table.check().map_err(Invalid::into_serde)?;
                Ok(NetworkText::Table(table))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}
