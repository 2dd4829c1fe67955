//! A review as data for programs: what `--json` prints and the HTTP API answers.

mod change;
mod repository;
mod plan;

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

pub use change::{ChangeReport, DiffReport, SideReport};
pub use plan::{LeftReport, PlanReport, StepReport};
pub use repository::{
    CheckoutReport, CommitReport, HeadReport, HeldReport, RefReport, RepositoryReport,
};

/// A path: text where it is UTF-8, else its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PathText {
    /// UTF-8.
    Text(String),
    /// Any other bytes.
    Bytes(Vec<u8>),
}

impl From<&Path> for PathText {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_encoded_bytes().to_vec()),
        }
    }
}
