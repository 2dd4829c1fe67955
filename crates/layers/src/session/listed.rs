//! Lists of each base's directories, written when a run begins and read when it ends.

use std::fs;
use std::path::PathBuf;

use sandbox_linux::replace::Durability;

use super::dirs::{Dirs, list};
use super::disk;
use super::opened::LayerSession;
use super::record::RootKind;
use crate::host::HostTree;

impl LayerSession {
    fn dirs_file(&self, root: usize) -> PathBuf {
        self.dir().join("dirs").join(format!("{root}.json"))
    }

    /// Lists the directories of every base. Without a list, directories count as changed if their times say so. No
    /// failure here stops a run.
    pub(super) fn list_dirs(&self) {
        for (number, root) in self.record().roots.iter().enumerate() {
            let file = self.dirs_file(number);
            // A list of an earlier run is not valid for this one.
            let _ = fs::remove_file(&file);
            let listed = (root.kind == RootKind::Dir).then(|| list(&root.path)).flatten();
            let Some((mut dirs, extent)) = listed else { continue };
            if extent.stopped_early
                && let Ok(record) = self.base_record(number)
                && let Ok(host) = HostTree::open(&root.path)
            {
                record.iter().for_each(|(path, _)| dirs.note(&host, path));
            }
            if let Ok(bytes) = serde_json::to_vec(&dirs)
                && disk::private_dir(&self.dir().join("dirs")).is_ok()
            {
                let _ = disk::replace(&file, &bytes, Durability::Cached);
            }
        }
    }

    /// Returns the directories of root number `root` at the start of the last run, if known.
    pub(super) fn dirs(&self, root: usize) -> Option<Dirs> {
        serde_json::from_slice(&fs::read(self.dirs_file(root)).ok()?).ok()
    }
}
