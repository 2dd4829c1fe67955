//! Records of the mounts that processes of this user serve: one small file each, checked against the kernel's mount
//! table on every read.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sandbox_linux::replace::{DraftName, Durability, Replace};
use serde::{Deserialize, Serialize};

use super::table::{self, KIND, Row};

/// Mount as recorded by its process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRecord {
    /// Database.
    pub database: PathBuf,
    /// Base directory.
    pub base: Option<PathBuf>,
    /// Mountpoint.
    pub mountpoint: PathBuf,
    /// Mount id.
    pub mount: u64,
    /// Pid of the process.
    pub pid: i32,
    /// Start time of that process in ticks since boot, because pids are reused.
    pub started: u64,
    /// Engine.
    pub engine: String,
}

/// State of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MountState {
    /// The mount is served.
    Mounted,
    /// The mount exists, but its process has ended.
    Stale,
    /// The mount has no record, for example because it belongs to another user.
    Foreign,
}

/// Mount of agent-sandbox with its present state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mounted {
    /// Database.
    pub database: PathBuf,
    /// Base directory.
    pub base: Option<PathBuf>,
    /// Mountpoint.
    pub mountpoint: PathBuf,
    /// Pid of the process.
    pub pid: Option<i32>,
    /// Engine.
    pub engine: String,
    /// State.
    pub state: MountState,
}

/// Returns the directory of the records in the user's state directory.
pub fn folder(state: &Path) -> PathBuf {
    state.join("mounts")
}

impl MountRecord {
    /// Writes the record. [`MountRecord::remove`] removes it.
    pub fn save(&self, folder: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        let way = Replace { draft: DraftName::PerProcess, ..Replace::private(Durability::Cached) };
        way.write(&self.file(folder), &text)
    }

    /// Removes the record, unless it belongs to a newer mount that reuses the mount id.
    pub fn remove(&self, folder: &Path) {
        let file = self.file(folder);
        if read_file(&file).is_some_and(|now| now.pid == self.pid) {
            // A record that stays is dropped by the next listing.
            let _ = fs::remove_file(file);
        }
    }

    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.json", self.mount))
    }

    /// Returns true if the process that wrote the record is running.
    pub fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// Returns the start time of a process in ticks since boot; `None` if it has ended.
pub fn started(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program name in parentheses may contain anything: `proc_pid_stat(5)`.
    let mut rest = text.get(text.rfind(')')? + 1..)?.split_whitespace();
    let state = rest.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    rest.nth(18)?.parse().ok()
}

/// Lists the mounts from the kernel's mount table and the records. Removes records of mounts that are gone.
pub fn list(folder: Option<&Path>) -> io::Result<Vec<Mounted>> {
    let rows = table::all()?;
    let records = folder.map(read).unwrap_or_default();
    for (file, record) in &records {
        let there = rows.iter().any(|row| is_of(row, record));
        if !there && !record.is_alive() {
            let _ = fs::remove_file(file);
        }
    }
    let ours =
        |row: &&Row| row.kind == KIND || records.iter().any(|(_, record)| is_of(row, record));
    Ok(rows
        .iter()
        .filter(ours)
        .map(|row| {
            mounted(row, records.iter().map(|(_, record)| record).find(|record| is_of(row, record)))
        })
        .collect())
}

fn is_of(row: &Row, record: &MountRecord) -> bool {
    row.id == record.mount && row.mountpoint == record.mountpoint
}

fn mounted(row: &Row, record: Option<&MountRecord>) -> Mounted {
    let state = match record {
        Some(record) if record.is_alive() || record.engine == "overlay" => MountState::Mounted,
        Some(_) => MountState::Stale,
        None if is_dead(&row.mountpoint) => MountState::Stale,
        None => MountState::Foreign,
    };
    Mounted {
        database: record.map_or_else(|| row.source.clone(), |record| record.database.clone()),
        base: record.and_then(|record| record.base.clone()),
        mountpoint: row.mountpoint.clone(),
        pid: record
            .filter(|record| state == MountState::Mounted && record.pid > 0)
            .map(|record| record.pid),
        engine: record.map_or_else(|| "agentfs".to_owned(), |record| record.engine.clone()),
        state,
    }
}

/// Returns true if the process of a mount is gone. Uses statfs(2), which the kernel always forwards, unlike cached file
/// attributes.
pub fn is_dead(mountpoint: &Path) -> bool {
    matches!(rustix::fs::statfs(mountpoint), Err(rustix::io::Errno::NOTCONN))
}

/// Reads the records in a directory. Other files are ignored.
pub fn read(folder: &Path) -> Vec<(PathBuf, MountRecord)> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let json = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    json.filter_map(|path| read_file(&path).map(|record| (path, record))).collect()
}

fn read_file(path: &Path) -> Option<MountRecord> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
