//! What was refused in a run: a file for each run, written by whoever refuses, read by `blocked`.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::policy::Refusal;
use crate::host::Host;

/// Runs that are remembered.
const KEPT: usize = 50;

/// One refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// When, in seconds since 1970; the first time.
    pub at: u64,
    /// The program that asked, where that could be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What was refused, and why.
    #[serde(flatten)]
    pub refusal: Refusal,
}

/// A run that refusals belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// Where it ran.
    pub cwd: PathBuf,
    /// The program, without its arguments, which may hold secrets.
    pub program: String,
}

/// The file of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    path: PathBuf,
}

fn dir(host: &Host) -> Option<PathBuf> {
    host.state_dir().map(|dir| dir.join("blocked"))
}

impl Journal {
    /// Begins the file of a run, that many nanoseconds after the second in which it started; the
    /// oldest ones go.
    pub fn begin(host: &Host, id: &str, run: &Run, nanoseconds: u32) -> io::Result<Self> {
        let dir = dir(host).ok_or(io::ErrorKind::NotFound)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        for old in files(&dir)?.into_iter().rev().skip(KEPT - 1) {
            // Another run may have been faster.
            let _ = fs::remove_file(old);
        }
        // In the order of their beginning.
        let path = dir.join(format!("{:012}.{nanoseconds:09}-{id}.jsonl", run.started));
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path)?;
        file.write_all(format!("{}\n", serde_json::to_string(run)?).as_bytes())?;
        Ok(Self { path })
    }

    /// Where refusals are to be added, a line each.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last run in a directory.
    pub fn last(host: &Host, cwd: &Path) -> io::Result<Option<Self>> {
        let Some(dir) = dir(host) else { return Ok(None) };
        let journals = files(&dir)?.into_iter().rev().map(|path| Self { path });
        Ok(journals.into_iter().find(|journal| journal.read().is_ok_and(|(run, _)| run.cwd == cwd)))
    }

    /// The run, and what was refused in it. A line that was cut short is left out.
    pub fn read(&self) -> io::Result<(Run, Vec<Blocked>)> {
        let text = fs::read_to_string(&self.path)?;
        let mut lines = text.lines();
        let run = serde_json::from_str(lines.next().unwrap_or_default())?;
        Ok((run, lines.filter_map(|line| serde_json::from_str(line).ok()).collect()))
    }
}

/// The files of all runs, the oldest first.
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
    fn journal_is_read_by_directory_and_the_oldest_go() {
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
