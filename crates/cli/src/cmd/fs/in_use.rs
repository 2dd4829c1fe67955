//! Refusal to change a database that another process has open.

use std::path::{Path, PathBuf};

use sandbox_layers::database::is_in_use;
use sandbox_protocol::Hint;
use thiserror::Error;

use crate::failed::Failed;

#[derive(Debug, Error)]
#[error("`{}` is in use", .0.display())]
struct InUse(PathBuf);

impl Hint for InUse {
    fn hint(&self) -> Option<String> {
        Some("unmount it first; `agent-sandbox fs ps` lists mounts".to_owned())
    }
}

/// Returns an error if the database is mounted, or open in another program.
pub(super) fn refuse(path: &Path) -> Result<(), Failed> {
    if !is_in_use(path) {
        return Ok(());
    }
    Err(InUse(path.to_owned()).into())
}
