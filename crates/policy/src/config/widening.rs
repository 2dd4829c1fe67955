//! A widening of the policy by a project's file, for messages and for the trust prompt.

use std::fmt;

use serde::Serialize;

use super::layer::Origin;
use crate::text::shown;

/// A widening of the policy by a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Widening {
    /// The key, such as `filesystem.rw`.
    pub key: String,
    /// Description of the widening.
    pub detail: String,
    /// The line that causes it.
    pub origin: Origin,
}

impl fmt::Display for Widening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", shown(&self.key), self.detail, self.origin)
    }
}

impl Widening {
    pub(super) fn new(key: impl Into<String>, detail: impl Into<String>, origin: &Origin) -> Self {
        Self { key: key.into(), detail: detail.into(), origin: origin.clone() }
    }
}
