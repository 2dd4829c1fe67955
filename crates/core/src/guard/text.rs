//! Bytes in JSON: text where they are text, numbers where they are not, nothing lost.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

/// Bytes that are most often text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub(super) struct Bytes(pub(super) Vec<u8>);

/// A path of any bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub(super) struct RawPath(pub(super) PathBuf);

impl RawPath {
    pub(super) fn of(path: &Path) -> Self {
        Self(path.to_path_buf())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Raw(Vec<u8>),
}

impl From<Vec<u8>> for Form {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Raw(error.into_bytes()), Self::Text)
    }
}

impl From<Form> for Vec<u8> {
    fn from(form: Form) -> Self {
        match form {
            Form::Text(text) => text.into_bytes(),
            Form::Raw(bytes) => bytes,
        }
    }
}

impl From<Bytes> for Form {
    fn from(bytes: Bytes) -> Self {
        bytes.0.into()
    }
}

impl From<Form> for Bytes {
    fn from(form: Form) -> Self {
        Self(form.into())
    }
}

impl From<RawPath> for Form {
    fn from(path: RawPath) -> Self {
        path.0.into_os_string().into_vec().into()
    }
}

impl From<Form> for RawPath {
    fn from(form: Form) -> Self {
        Self(OsString::from_vec(form.into()).into())
    }
}

/// For `#[serde(serialize_with)]` on a path.
pub(super) fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    RawPath::of(path).serialize(serializer)
}
