//! The list of mounts that this user's processes serve: one small file each, checked against the
//! kernel's own list whenever it is read.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sandbox_linux::replace::{DraftName, Durability, Replace};
use serde::{Deserialize, Serialize};

use super::table::{self, KIND, Row};

/// A mount, as its process wrote it down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRecord {
    /// What is mounted.
    pub database: PathBuf,
    /// The directory that it stands on.
    pub base: Option<PathBuf>,
    /// Where.
    pub mountpoint: PathBuf,
    /// The number of the mount.
    pub mount: u64,
    /// By which process.
    pub pid: i32,
    /// When that process began, in ticks since boot: a number alone may have been given again.
    pub started: u64,
    /// By which engine.
    pub engine: String,
}

/// How a mount is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MountState {
    /// It is served.
    Mounted,
    /// Its process is dead, and the kernel still has it.
    Stale,
    /// Somebody else's: nothing is known about its process.
    Foreign,
}

/// A mount of ours, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mounted {
    /// What is mounted.
    pub database: PathBuf,
    /// The directory that it stands on.
    pub base: Option<PathBuf>,
    /// Where.
    pub mountpoint: PathBuf,
    /// By which process.
    pub pid: Option<i32>,
    /// By which engine.
    pub engine: String,
    /// How it is.
    pub state: MountState,
}

/// Where the list lies, in a directory of the user's state.
pub fn folder(state: &Path) -> PathBuf {
    state.join("mounts")
}

impl MountRecord {
    /// Writes the file; it goes away with [`MountRecord::remove`].
    pub fn save(&self, folder: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        let way = Replace { draft: DraftName::PerProcess, ..Replace::private(Durability::Cached) };
        way.write(&self.file(folder), &text)
    }

    /// Removes the file, unless it is that of another mount, which got the number while this one came to rest.
    pub fn remove(&self, folder: &Path) {
        let file = self.file(folder);
        if read_file(&file).is_some_and(|now| now.pid == self.pid) {
            // Whoever reads the list next would drop it too.
            let _ = fs::remove_file(file);
        }
    }

    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.json", self.mount))
    }

    /// Returns true when the process that wrote this lives.
    pub fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// When a process began, in ticks since boot; nothing for one that has ended.
pub fn started(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    let mut rest = text.get(text.rfind(')')? + 1..)?.split_whitespace();
    let state = rest.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    rest.nth(18)?.parse().ok()
}

/// What is mounted, from the kernel's list and the records. Records of what is gone are dropped.
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

/// Returns true when nobody serves what is mounted at a path. What a file is the kernel may remember; how full
/// the file system is it always asks.
pub fn is_dead(mountpoint: &Path) -> bool {
    matches!(rustix::fs::statfs(mountpoint), Err(rustix::io::Errno::NOTCONN))
}

/// The records of a folder; what is no record is left alone.
pub fn read(folder: &Path) -> Vec<(PathBuf, MountRecord)> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let json = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    json.filter_map(|path| read_file(&path).map(|record| (path, record))).collect()
}

fn read_file(path: &Path) -> Option<MountRecord> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
