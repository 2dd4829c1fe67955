//! Journal of refused hosts: one file per run, written by the proxy and read by `blocked`.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::policy::Refusal;
use crate::host::Host;

/// Number of runs whose journals are kept.
const KEPT: usize = 50;

/// A refused connection or name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// Time of the first refusal, in seconds since 1970.
    pub at: u64,
    /// The program that asked, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The host and the reason.
    #[serde(flatten)]
    pub refusal: Refusal,
}

/// The run of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Start of the run, in seconds since 1970.
    pub started: u64,
    /// Working directory of the run.
    pub cwd: PathBuf,
    /// The program, without its arguments, which may hold secrets.
    pub program: String,
}

/// Journal of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    path: PathBuf,
}

fn dir(host: &Host) -> Option<PathBuf> {
    host.state_dir().map(|dir| dir.join("blocked"))
}

impl Journal {
    /// Creates the journal of a run that started at `run.started` plus `nanoseconds`. Removes the oldest journals.
    pub fn begin(host: &Host, id: &str, run: &Run, nanoseconds: u32) -> io::Result<Self> {
        let dir = dir(host).ok_or(io::ErrorKind::NotFound)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        for old in files(&dir)?.into_iter().rev().skip(KEPT - 1) {
            // Another run may have removed it already.
            let _ = fs::remove_file(old);
        }
        // Sorted by name, journals are in the order of their start.
        let path = dir.join(format!("{:012}.{nanoseconds:09}-{id}.jsonl", run.started));
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path)?;
        file.write_all(format!("{}\n", serde_json::to_string(run)?).as_bytes())?;
        Ok(Self { path })
    }

    /// Returns the file to which refusals are appended, one per line.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the journal of the last run in a directory.
    pub fn last(host: &Host, cwd: &Path) -> io::Result<Option<Self>> {
        let Some(dir) = dir(host) else { return Ok(None) };
        let journals = files(&dir)?.into_iter().rev().map(|path| Self { path });
        Ok(journals.into_iter().find(|journal| journal.read().is_ok_and(|(run, _)| run.cwd == cwd)))
    }

    /// Reads the run and its refusals. Skips an incomplete last line.
    pub fn read(&self) -> io::Result<(Run, Vec<Blocked>)> {
        let text = fs::read_to_string(&self.path)?;
        let mut lines = text.lines();
        let run = serde_json::from_str(lines.next().unwrap_or_default())?;
        Ok((run, lines.filter_map(|line| serde_json::from_str(line).ok()).collect()))
    }
}

/// Returns the files of all runs, oldest first.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_is_read_by_directory_and_the_oldest_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let host = Host { home: Some(home.path().into()), env: [].into(), ..Host::read() };
        let run = |started, cwd: &str| Run { started, cwd: cwd.into(), program: "npm".into() };
        assert_eq!(Journal::last(&host, Path::new("/a")).unwrap(), None);
        let old = Journal::begin(&host, "x", &run(1, "/a"), 0).unwrap();
        for number in 2..=60 {
            Journal::begin(&host, "y", &run(number, "/b"), 0).unwrap();
        }
        assert!(!old.path().try_exists().unwrap(), "only the newest are kept");
        let last = Journal::begin(&host, "a", &run(60, "/a"), 7).unwrap();
        let refusal =
            Refusal { host: "c.io".into(), port: None, rule: "r".into(), allow_with: None };
        let blocked = Blocked { at: 7, by: Some("curl".into()), refusal };
        let line = serde_json::to_string(&blocked).unwrap();
        fs::write(
            last.path(),
            format!("{}{line}\n{{\"at\":", fs::read_to_string(last.path()).unwrap()),
        )
        .unwrap();
        assert_eq!(Journal::last(&host, Path::new("/a")).unwrap(), Some(last.clone()));
        assert_eq!(last.read().unwrap(), (run(60, "/a"), vec![blocked]));
    }
}
