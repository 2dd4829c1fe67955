//! Paths below a root in JSON, written as [`sandbox_linux::raw`] writes bytes. For `#[serde(with)]`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use sandbox_linux::raw::Raw;

use crate::RelPath;

pub(crate) fn serialize<S: Serializer>(path: &RelPath, to: S) -> Result<S::Ok, S::Error> {
    Raw::from(path.as_path().as_os_str().to_owned()).serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<RelPath, D::Error> {
    let raw = Raw::deserialize(from)?;
    RelPath::new(raw.as_os_str()).ok_or_else(|| de::Error::custom("invalid path below a root"))
}
