//! File of saved rendezvous sockets.

use std::collections::BTreeMap;
use std::path::Path;

use sandbox_linux::replace::{Durability, Replace};
use serde::{Deserialize, Serialize};

use super::Rendezvous;
use crate::session::{StoreError, read_file};

const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct File {
    version: u32,
    #[serde(rename = "doors")]
    sockets: BTreeMap<String, Rendezvous>,
}

pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Rendezvous>, StoreError> {
    let Some(text) = read_file(path)? else { return Ok(BTreeMap::new()) };
    let file: File = serde_json::from_slice(&text)
        .map_err(|error| StoreError::Content(path.to_owned(), error))?;
    if file.version != VERSION {
        return Err(StoreError::Version { path: path.to_owned(), found: file.version });
    }
    Ok(file.sockets)
}

pub(super) fn write(path: &Path, sockets: &BTreeMap<String, Rendezvous>) -> Result<(), StoreError> {
    let failed = |error| StoreError::Write(path.to_owned(), error);
    let file = File { version: VERSION, sockets: sockets.clone() };
    let text = serde_json::to_vec_pretty(&file).map_err(|error| failed(error.into()))?;
    Replace::private(Durability::Content).write(path, &text).map_err(failed)
}
