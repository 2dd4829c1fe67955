//! `cow`: the copy-on-write engine.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use super::word::{Scalar, scalar};

/// `cow`: destination of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CowEngine {
    /// The tree itself.
    Off,
    /// A layer of an engine that is chosen automatically.
    On,
    /// A layer of the kernel's overlayfs.
    Overlay,
    /// A database in one file.
    Agentfs,
}

impl<'de> Deserialize<'de> for CowEngine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match scalar(deserializer, "`true`, `false`, `\"overlay\"` or `\"agentfs\"`")? {
            Scalar::Switch(false) => Ok(Self::Off),
            Scalar::Switch(true) => Ok(Self::On),
            Scalar::Word(word) => match word.as_str() {
                "overlay" => Ok(Self::Overlay),
                "agentfs" => Ok(Self::Agentfs),
                _ => Err(de::Error::unknown_variant(&word, &["overlay", "agentfs"])),
            },
        }
    }
}

impl JsonSchema for CowEngine {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CowEngine".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [false, true, "overlay", "agentfs"] })
    }
}
