//! `host_commands`: the bridge to the host.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::Deserializer;

use super::word::Invalid;
use crate::config::command::{Entry, PublicKey};
use crate::text::shown;

/// The bridge to the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct HostCommands {
    /// Whether there is one.
    pub enabled: bool,
    /// How requests travel; `"unix"` when left out.
    pub transport: Transport,
    /// The secret that holds the SSH key.
    pub ssh_key_secret: Option<String>,
    /// The user on the host, for SSH.
    pub user: Option<String>,
    /// The host's name, for SSH; `"host.docker.internal"` when left out.
    pub host: Option<String>,
    /// The host's port, for SSH; 22 when left out.
    pub port: Option<u16>,
    /// Which host key is believed, for SSH.
    pub host_key: HostKey,
    /// Commands, each with the words it must begin with.
    pub allowed: Vec<Entry>,
}

/// Which host key is believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HostKey {
    /// The host's own, as it is when the session is made.
    #[default]
    Pinned,
    /// The one that is met first.
    AcceptNew,
    /// This one.
    Key(PublicKey),
}

impl<'de> Deserialize<'de> for HostKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "pinned" => Ok(Self::Pinned),
            "accept-new" => Ok(Self::AcceptNew),
            key => PublicKey::parse(key).map(Self::Key).ok_or_else(|| {
                Invalid::new(format!("{} is no key of a host", shown(&text)))
                    .hint("write `\"pinned\"`, `\"accept-new\"`, or a line such as `\"ssh-ed25519 AAAA…\"`")
                    .into_serde()
            }),
        }
    }
}

impl JsonSchema for HostKey {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "HostKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["pinned", "accept-new", "ssh-ed25519 AAAA…"] })
    }
}

/// How requests travel to the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// By a socket.
    #[default]
    Unix,
    /// By an SSH forced command.
    Ssh,
}
