//! One thing that a project's file opens, for messages and for the question whether to trust it.

use std::fmt;

use serde::Serialize;

use super::layer::Origin;
use crate::text::shown;

/// One thing that a file opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Widening {
    /// The key, such as `filesystem.rw`.
    pub key: String,
    /// What it opens.
    pub detail: String,
    /// The line that opens it.
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
