//! Record of a run, with which the next run can finish it if it is killed.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sandbox_linux::clock;
use sandbox_linux::file;
use sandbox_linux::raw::RawPath;
use sandbox_linux::replace::{DraftName, Durability, Replace};
use sandbox_linux::tree::{Dir, Instant};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::baseline::{Baseline, Id};

/// Maximum size of a record. A larger file was not written by agent-sandbox.
const MAX_RECORD: u64 = 64 << 20;
/// Smallest backward step of the wall clock that is noticed.
const STEP: i64 = 20_000_000;
/// Allowance for a file server, which sets timestamps from its own clock.
const FOREIGN: i64 = 120 * SECOND;
const SECOND: i64 = 1_000_000_000;

/// A run: when it began, where it may write, and what it must not change there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) roots: Vec<RawPath>,
    /// The roots, and other writable directories of git.
    pub(super) places: Vec<RawPath>,
    /// True when every repository below the roots was known at the start.
    pub(super) complete: bool,
    /// True when every configuration file below the roots was known at the start. Missing in records of earlier
    /// versions.
    #[serde(default)]
    pub(super) policies_complete: bool,
    pub(super) started: Started,
    pub(super) repos: Vec<Known>,
    pub(super) absent: Vec<RawPath>,
    pub(super) absent_config: Vec<RawPath>,
    pub(super) kept: Vec<Baseline>,
    pub(super) links: Vec<(RawPath, RawPath)>,
    /// Settings of agents in the home directory. Missing in records of earlier versions.
    #[serde(default)]
    pub(super) settings: Vec<(RawPath, Option<Stamp>)>,
}

/// State of a file: seconds and nanoseconds of its ctime, its inode number, and its size.
pub(super) type Stamp = (i64, i64, u64, u64);

/// Start time of a run by two clocks: the wall clock, which sets file timestamps, and the boot clock, which is never
/// set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    /// The wall clock. Records of earlier versions have the clock for file timestamps, which lags by up to a tick.
    wall: Instant,
    /// The wall clock, read together with `since_boot`. Missing in records of earlier versions.
    #[serde(default)]
    exact: Option<Instant>,
    since_boot: Instant,
    foreign_clock: bool,
}

/// A repository at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) entry: RawPath,
    pub(super) git_dir: RawPath,
    pub(super) common_dir: RawPath,
    /// Inode of the entry, if it is a directory.
    pub(super) id: Option<Id>,
}

impl Started {
    pub(super) fn now(roots: &[PathBuf]) -> Self {
        let foreign = |root: &PathBuf| Dir::open(root).is_ok_and(|dir| dir.has_foreign_clock());
        let foreign_clock = roots.iter().any(foreign);
        let (exact, since_boot) = clock::wall_and_boot();
        Self { wall: exact, exact: Some(exact), since_boot, foreign_clock }
    }

    /// Returns a timestamp that no change during the run precedes.
    pub(super) fn stamp(self, same_boot: bool) -> Instant {
        let (now, now_boot) = clock::wall_and_boot();
        // The command starts when file timestamps are later than the start, so none of its changes precedes it.
        let margin = if self.foreign_clock { FOREIGN } else { 0 };
        // If the wall clock advanced less than the boot clock, it was set back. Only exact clocks can show this: the
        // clock for file timestamps may stop for longer than a step.
        let passed = match self.exact {
            Some(exact) => nanos(now) - nanos(exact),
            None => nanos(clock::wall()) - nanos(self.wall),
        };
        let lag = (nanos(now_boot) - nanos(self.since_boot)).saturating_sub(passed);
        let set_back = if lag > STEP { lag } else { 0 };
        let stamp = nanos(self.wall) - margin - if same_boot { set_back } else { 0 };
        (stamp.div_euclid(SECOND), u32::try_from(stamp.rem_euclid(SECOND)).unwrap_or(0))
    }
}

fn nanos((seconds, nanos): Instant) -> i64 {
    seconds.saturating_mul(SECOND).saturating_add(i64::from(nanos))
}

/// Name of a run: boot ID, pid and start time of the process. No other process ever has the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunId {
    boot: String,
    pid: u32,
    start: u64,
}

impl RunId {
    pub(super) fn own() -> io::Result<Self> {
        let pid = std::process::id();
        Ok(Self { boot: boot_id()?, pid, start: process_start(pid)? })
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let (boot, pid, start) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next().is_none().then_some(())?;
        Some(Self { boot: boot.to_owned(), pid: pid.parse().ok()?, start: start.parse().ok()? })
    }

    /// Returns true when the process that wrote the record still runs, or when that cannot be determined.
    pub(super) fn is_alive(&self) -> bool {
        let same_boot = boot_id().map_or(true, |boot| boot == self.boot);
        same_boot
            && match process_start(self.pid) {
                Ok(start) => start == self.start,
                Err(error) => error.kind() != io::ErrorKind::NotFound,
            }
    }

    pub(super) fn same_boot(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot)
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{}", self.boot, self.pid, self.start)
    }
}

fn boot_id() -> io::Result<String> {
    let id = file::kernel_text("/proc/sys/kernel/random/boot_id")?;
    Ok(id.chars().filter(char::is_ascii_hexdigit).take(12).collect())
}

/// Returns the start time of a process, field 22 of `/proc/PID/stat` (`proc_pid_stat(5)`). The command name in
/// field 2 may contain any character, so the fields are counted from its end.
fn process_start(pid: u32) -> io::Result<u64> {
    let stat = file::kernel_text(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(") ").map(|(_, rest)| rest);
    let ticks = after_name.and_then(|rest| rest.split(' ').nth(19)?.parse().ok());
    ticks.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Creates a directory that only the user can enter, with its parents.
pub(super) fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a file that only the user can read. Fails if it exists.
pub(super) fn write_private<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        private_dir(dir)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&serde_json::to_vec(value)?)
}

/// Reads a file that [`write_private`] wrote.
pub(super) fn read_private<T: for<'a> Deserialize<'a>>(path: &Path) -> io::Result<T> {
    let (dir, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    let bytes = open_real(dir)?.read(name, MAX_RECORD)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Facts about a tree that are kept between runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tree {
    /// `.git` entries and bare repositories.
    pub(super) repos: Vec<RawPath>,
    /// Configuration files of agent-sandbox. Missing in records of earlier versions.
    #[serde(default)]
    pub(super) policies: Vec<RawPath>,
    /// True when the last scan reached the end of the tree.
    pub(super) complete: bool,
}

impl Tree {
    fn file(state: &Path, root: &Path) -> PathBuf {
        let hash = Sha256::digest(root.as_os_str().as_encoded_bytes());
        let name = hash.iter().take(16).fold(0_u128, |name, byte| name << 8 | u128::from(*byte));
        state.join("trees").join(format!("{name:032x}.json"))
    }

    pub(super) fn load(state: &Path, root: &Path) -> Option<Self> {
        read_private(&Self::file(state, root)).ok()
    }

    /// Replaces the stored facts atomically.
    pub(super) fn save(&self, state: &Path, root: &Path) -> io::Result<()> {
        let file = Self::file(state, root);
        private_dir(file.parent().unwrap_or(state))?;
        let replace =
            Replace { draft: DraftName::PerProcess, ..Replace::private(Durability::Cached) };
        replace.write(&file, &serde_json::to_vec(self)?)
    }
}

/// Opens a directory of agent-sandbox. The user may have put symlinks in its path.
pub(super) fn open_real(path: &Path) -> io::Result<Dir> {
    Dir::open(&sandbox_linux::file::real(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_is_alive_only_as_long_as_its_process() {
        let own = RunId::own().unwrap();
        assert!(own.is_alive());
        assert_eq!(RunId::parse(&own.to_string()), Some(own.clone()));
        assert!(!RunId { start: own.start + 1, ..own.clone() }.is_alive(), "pid reused");
        assert!(!RunId { boot: "0".into(), ..own.clone() }.is_alive(), "another boot");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let gone = RunId { pid: child.id(), ..own };
        child.wait().unwrap();
        assert!(!gone.is_alive(), "ended");
    }

    #[test]
    fn stamp_is_the_start_and_precedes_it_when_the_clock_was_set_back() {
        let started = Started::now(&[]);
        assert_eq!(started.stamp(true), started.wall);
        let set_back = |started: Started| Started {
            exact: started.exact.map(|now| (now.0 + 3600, now.1)),
            ..started
        };
        assert!(set_back(started).stamp(true) < started.wall, "an hour back");
        assert_eq!(set_back(started).stamp(false), started.wall, "another boot");
        let stalled = Started { wall: (started.wall.0 + 1, started.wall.1), ..started };
        assert_eq!(stalled.stamp(true), stalled.wall, "the timestamp clock stopped at the end");
    }

    #[test]
    fn stamp_of_an_earlier_version_notices_that_the_clock_was_set_back() {
        let now = clock::wall();
        let old = serde_json::json!({
            "wall": (now.0 + 3600, now.1), "since_boot": clock::since_boot(), "foreign_clock": false
        });
        let old: Started = serde_json::from_value(old).unwrap();
        assert!(old.stamp(true) <= now, "{:?} {now:?}", old.stamp(true));
    }
}
