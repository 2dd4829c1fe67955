//! `mounts` and `shared_dirs`: bind mounts in their written form.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess};

use super::at::At;
use super::word::{FilePath, HostPath, InsidePath, Label};

/// A line of `mounts`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
pub struct MountText {
    /// The path on the host, absolute.
    pub host: HostPath,
    /// The path inside, absolute.
    pub container: InsidePath,
    /// Access to the mount. Default: `"ro"`.
    #[serde(default)]
    pub mode: MountMode,
}

/// Access to a mount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MountMode {
    /// Read-only.
    #[default]
    Ro,
    /// Read-write.
    Rw,
}

/// `shared_dirs`: a table by name, or a list.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(untagged)]
pub enum SharedDirs {
    /// `NAME = { host, guest }`.
    Named(BTreeMap<Label, At<SharedDir>>),
    /// `{ host_path, guest_path, read_only }`.
    List(#[schemars(with = "Vec<SharedDirItem>")] Vec<At<SharedDir>>),
}

/// A shared directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
pub struct SharedDir {
    /// The path on the host, relative to the file.
    pub host: FilePath,
    /// The path inside, absolute.
    pub guest: InsidePath,
    /// True for a read-only mount.
    #[serde(default)]
    pub read_only: bool,
}

/// A shared directory in the list form.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
struct SharedDirItem {
    /// The path on the host, relative to the file.
    host_path: FilePath,
    /// The path inside, absolute.
    guest_path: InsidePath,
    /// True for a read-only mount.
    #[serde(default)]
    read_only: bool,
}

impl SharedDirs {
    /// Returns all of them, from either form.
    pub fn all(&self) -> Box<dyn Iterator<Item = &At<SharedDir>> + '_> {
        match self {
            Self::Named(dirs) => Box::new(dirs.values()),
            Self::List(dirs) => Box::new(dirs.iter()),
        }
    }
}

impl<'de> Deserialize<'de> for SharedDirs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = SharedDirs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table by name, or a list")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SharedDirs, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(SharedDirs::Named)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<SharedDirs, A::Error> {
                let items =
                    Vec::<At<SharedDirItem>>::deserialize(SeqAccessDeserializer::new(list))?;
                Ok(SharedDirs::List(
                    items.into_iter().map(|item| item.map(SharedDir::from)).collect(),
                ))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl From<SharedDirItem> for SharedDir {
    fn from(item: SharedDirItem) -> Self {
        Self { host: item.host_path, guest: item.guest_path, read_only: item.read_only }
    }
}
