//! `host_commands`: commands that a container can run on the host.

use std::num::NonZeroU16;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::Deserializer;

use super::container::{SshHost, SshUser};
use super::credential::StoredName;
use super::word::Invalid;
use crate::config::command::{Entry, PublicKey};
use crate::text::shown;

/// Commands that a container can run on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct HostCommands {
    /// True to allow requests.
    pub enabled: bool,
    /// Transport of requests. Default: `"unix"`.
    pub transport: Transport,
    /// The secret that contains the SSH key.
    pub ssh_key_secret: Option<StoredName>,
    /// The user on the host, for SSH.
    pub user: Option<SshUser>,
    /// The host's name, for SSH. Default: `"host.docker.internal"`.
    pub host: Option<SshHost>,
    /// The host's port, for SSH. Default: 22.
    pub port: Option<NonZeroU16>,
    /// The host key that the container trusts, for SSH.
    pub host_key: HostKey,
    /// Allowed commands, each with the words that a request must begin with.
    pub allowed: Vec<Entry>,
}

/// The host key that a container trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HostKey {
    /// The host's key at the time the session is created.
    #[default]
    Pinned,
    /// The key of the first connection.
    AcceptNew,
    /// This key.
    Key(PublicKey),
}

impl<'de> Deserialize<'de> for HostKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "pinned" => Ok(Self::Pinned),
            "accept-new" => Ok(Self::AcceptNew),
            key => PublicKey::parse(key).map(Self::Key).ok_or_else(|| {
                Invalid::new(format!("invalid host key {}", shown(&text)))
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

/// Transport of requests to the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A Unix socket.
    #[default]
    Unix,
    /// An SSH forced command: `command=` in `sshd(8)`.
    Ssh,
}
