//! Processes in other mount namespaces that still have a mount.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A process that has a mount in its own mount namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: i32,
    /// The name of its program.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "process {} (`{}`)", self.pid, self.name)
    }
}

/// One process for each mount namespace, as far as they can be read, in which a file system is
/// mounted. `device` is its number, as `major:minor`.
pub fn holders(device: &str) -> Vec<Holder> {
    let own = namespace("self");
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for pid in processes() {
        let space = namespace(&pid.to_string());
        // A namespace that cannot be told is looked at for each of its processes.
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

/// Returns true while the kernel has the connection of a FUSE file system, or nothing where it does not say.
pub fn is_connected(device: &str) -> Option<bool> {
    let all = Path::new("/sys/fs/fuse/connections");
    let (_, minor) = device.split_once(':')?;
    // Where the list is not mounted, it is empty.
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
