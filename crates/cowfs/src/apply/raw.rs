//! Bytes in JSON: text where they are text, numbers where they are not, nothing lost.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

/// Bytes that are most often text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Raw(pub Vec<u8>);

impl Raw {
    /// The same bytes, as the system takes them.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

impl From<OsString> for Raw {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<Raw> for Form {
    fn from(Raw(bytes): Raw) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }
}

impl From<Form> for Raw {
    fn from(form: Form) -> Self {
        match form {
            Form::Text(text) => Self(text.into_bytes()),
            Form::Bytes(bytes) => Self(bytes),
        }
    }
}

/// For `#[serde(with)]` on a path below a root.
pub(crate) mod path {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use super::Raw;
    use crate::RelPath;

    pub(crate) fn serialize<S: Serializer>(path: &RelPath, to: S) -> Result<S::Ok, S::Error> {
        Raw::from(path.as_path().as_os_str().to_owned()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<RelPath, D::Error> {
        let raw = Raw::deserialize(from)?;
        RelPath::new(raw.as_os_str()).ok_or_else(|| de::Error::custom("no path below a root"))
    }
}
