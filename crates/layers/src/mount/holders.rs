//! Processes that have a mount in another mount namespace.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Process with a mount in its mount namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Pid.
    pub pid: i32,
    /// Name of its program.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "process {} (`{}`)", self.pid, self.name)
    }
}

/// Returns one process for each readable mount namespace in which a file system is mounted. `device` is its device
/// number, `major:minor`.
pub fn holders(device: &str) -> Vec<Holder> {
    let own = namespace("self");
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for pid in processes() {
        let space = namespace(&pid.to_string());
        // If a namespace cannot be identified, each of its processes is checked.
        if space.is_some() && (space == own || !seen.insert(space.clone())) {
            continue;
        }
        let table = fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let mut rows = table.split(|byte| *byte == b'\n');
        if rows.any(|row| row.split(|byte| *byte == b' ').nth(2) == Some(device.as_bytes())) {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            found.push(Holder { pid, name: name.trim_end().to_owned() });
        }
    }
    found
}

/// Returns true while the kernel has the connection of a FUSE file system (fuse.rst); `None` if that cannot be read.
pub(crate) fn is_connected(device: &str) -> Option<bool> {
    let all = Path::new("/sys/fs/fuse/connections");
    let (_, minor) = device.split_once(':')?;
    // The directory is empty if fusectl is not mounted.
    let listed = fs::read_dir(all).ok()?.next().is_some();
    listed.then(|| all.join(minor).is_dir())
}

fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

fn namespace(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()
}
