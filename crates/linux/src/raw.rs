//! Bytes in JSON, without loss: as text if they are UTF-8, else as numbers.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

/// Bytes that are usually text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Raw(pub Vec<u8>);

impl Raw {
    /// Returns the bytes as an `OsStr`.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

impl From<OsString> for Raw {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}

/// Path that may not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct RawPath(pub PathBuf);

impl RawPath {
    /// Copies a path.
    pub fn of(path: &Path) -> Self {
        Self(path.to_path_buf())
    }
}

/// Serializes a path, for `#[serde(serialize_with)]`.
pub fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    RawPath::of(path).serialize(serializer)
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<Vec<u8>> for Form {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }
}

impl From<Form> for Vec<u8> {
    fn from(form: Form) -> Self {
        match form {
            Form::Text(text) => text.into_bytes(),
            Form::Bytes(bytes) => bytes,
        }
    }
}

impl From<Raw> for Form {
    fn from(Raw(bytes): Raw) -> Self {
        bytes.into()
    }
}

impl From<Form> for Raw {
    fn from(form: Form) -> Self {
        Self(form.into())
    }
}

impl From<RawPath> for Form {
    fn from(RawPath(path): RawPath) -> Self {
        path.into_os_string().into_vec().into()
    }
}

impl From<Form> for RawPath {
    fn from(form: Form) -> Self {
        Self(OsString::from_vec(form.into()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_or_numbers_and_come_back() {
        for (bytes, json) in
            [(&b"gr\xc3\xbcn\n"[..], "\"gr\u{fc}n\\n\""), (b"a\xff", "[97,255]"), (b"", "\"\"")]
        {
            let raw = Raw(bytes.to_vec());
            assert_eq!(serde_json::to_string(&raw).unwrap(), json);
            assert_eq!(serde_json::from_str::<Raw>(json).unwrap(), raw);
            let path = RawPath::of(Path::new(raw.as_os_str()));
            assert_eq!(serde_json::to_string(&path).unwrap(), json);
            assert_eq!(serde_json::from_str::<RawPath>(json).unwrap(), path);
        }
    }
}
