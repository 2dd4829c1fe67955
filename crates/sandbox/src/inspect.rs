//! Inspection of the project around a run: reverts or lists files planted for the host's next command.
//!
//! Mounts protect files that exist. They cannot protect files that do not exist yet without leaving
//! litter in the user's tree. So each run leaves a record of what must not appear or change. The record
//! is compared with the tree at the end of the run, or, if the run was killed, at the start of the next
//! run in that tree.
//!
//! ```text
//! recall   finish the work of killed runs; load what earlier scans know about the tree
//! begin    write the record
//! finish   compare, move aside, restore, walk, report
//! ```
//!
//! The sandbox must not reach the records: [`Host::state_dir`] is never writable inside.

mod report;
mod baseline;
mod record;
mod quarantine;
mod judge;
mod later;
mod scan;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox_linux::lock::LockFile;
use sandbox_linux::raw::RawPath;
use sandbox_linux::tree;
use sandbox_protocol::Hint;
use thiserror::Error;

use baseline::{Baseline, Class};
use quarantine::Quarantine;
use record::{Known as KnownRepo, Record, RunId, Stamp, Started, Tree};
pub use report::{Failure, Later, MAX_LISTED, Moved, Report, Restored, Why};
use sandbox_git::protect::{GitProtection, Repo};
use sandbox_policy::Host;
use sandbox_policy::catalog::agent;
use scan::Scan;

/// Error from recording a run.
#[derive(Debug, Error)]
pub enum InspectError {
    /// There is no directory for the record.
    #[error("cannot record the run: there is no home directory")]
    NoStateDir,
    /// The record cannot be written.
    #[error("cannot write the run record to `{}`", path.display())]
    Record {
        /// The record, or the directory of records.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl Hint for InspectError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoStateDir => Some("set `HOME` or `XDG_STATE_HOME` to an absolute path".into()),
            Self::Record { .. } => {
                Some("make its directory writable, or set `XDG_STATE_HOME` to another one".into())
            }
        }
    }
}

/// Results of earlier runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recalled {
    /// Report of the scans done for killed runs.
    pub report: Report,
    /// Facts known about the roots.
    pub known: Known,
}

/// Results of earlier scans below some roots.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Repositories: the `known` of [`discover`](sandbox_git::protect::discover).
    pub repositories: Vec<PathBuf>,
    /// Configuration files of agent-sandbox.
    pub policies: Vec<PathBuf>,
    /// True when an earlier scan reached the end of each root.
    pub complete: bool,
}

/// Creates the directory for records. Call it before planning: only a directory that exists can be
/// kept out of a sandbox.
pub fn create_state_dir(host: &Host) -> Result<(), InspectError> {
    let path = host.state_dir().ok_or(InspectError::NoStateDir)?;
    record::private_dir(&path).map_err(|source| InspectError::Record { path, source })
}

/// Returns what is known about some roots. Changes nothing.
pub fn known(host: &Host, roots: &[PathBuf]) -> Known {
    let mut known = Known { complete: true, ..Known::default() };
    let Some(state) = host.state_dir() else { return Known::default() };
    for root in roots {
        let tree = Tree::load(&state, root);
        known.complete &= tree.as_ref().is_some_and(|tree| tree.complete);
        let Tree { repos, policies, .. } = tree.unwrap_or_default();
        known.repositories.extend(repos.into_iter().map(|repo| repo.0));
        known.policies.extend(policies.into_iter().map(|policy| policy.0));
    }
    known
}

/// Returns the program that later runs a file at this path below a project on the host, or reads settings
/// from it. Judges by the name alone: a file in a layer is not on the host yet.
pub fn runs_later(path: &Path) -> Option<&'static str> {
    later::by_path(path)
}

/// Returns true when the path has a component that git treats as `.git`, in any spelling.
pub fn is_git_path(path: &Path) -> bool {
    path.iter().any(|name| sandbox_git::fold::fold(name) == ".git")
}

/// Returns true when the content of a file shows that it runs nothing, although its name suggests it.
pub fn is_harmless(name: &OsStr, content: &[u8]) -> bool {
    later::is_harmless(name, content)
}

/// Facts about a run that is about to start.
#[derive(Debug)]
pub struct InspectInput<'a> {
    /// Directories that the run may write: real paths, the working directory first.
    pub roots: &'a [PathBuf],
    /// The repositories there.
    pub git: &'a GitProtection,
    /// Configuration files of agent-sandbox, and paths that would become one.
    pub config_files: &'a [PathBuf],
}

/// A recorded run.
#[derive(Debug)]
#[must_use = "a run that is not finished leaves its scan to the next run"]
pub struct Run {
    state: PathBuf,
    id: RunId,
    file: PathBuf,
    record: Record,
}

/// Finishes killed runs in this tree, and returns what is known about it. Call it before planning: files
/// that a killed run planted must be gone before any decision depends on existing files.
pub fn recall(host: &Host, roots: &[PathBuf]) -> Result<Recalled, InspectError> {
    let state = host.state_dir().ok_or(InspectError::NoStateDir)?;
    let mut recalled = Recalled::default();
    for (id, file) in dead_runs(&state.join("runs")) {
        match sweep(&state, &id, &file, roots) {
            Ok(Some(report)) => recalled.report.absorb(report),
            Ok(None) => {}
            Err(error) => {
                recalled.report.fail(&file, "cannot finish a killed run", &error);
            }
        }
    }
    recalled.known = known(host, roots);
    Ok(recalled)
}

/// Records a run.
pub fn begin(host: &Host, input: &InspectInput<'_>) -> Result<Run, InspectError> {
    let state = host.state_dir().ok_or(InspectError::NoStateDir)?;
    let record = new_record(host, input);
    let failed = |path: &Path, source| InspectError::Record { path: path.to_path_buf(), source };
    let id = RunId::own().map_err(|source| failed(&state, source))?;
    let runs = state.join("runs");
    // One process may supervise several runs.
    for count in 0.. {
        let file = runs.join(format!("{id}.{count}.json"));
        match record::write_private(&file, &record) {
            Ok(()) => return Ok(Run { state, id, file, record }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&file, error)),
        }
    }
    unreachable!("the names do not end")
}

impl Run {
    /// Returns the name of the run, which its record and its quarantine directory share.
    pub fn id(&self) -> String {
        self.id.to_string()
    }

    /// Scans the tree. Moves aside or restores files that git would act on, and lists files that run code later.
    pub fn finish(self) -> Report {
        let mut report = scan(&self.state, &self.id, &self.record);
        if let Err(error) = fs::remove_file(&self.file) {
            report.fail(&self.file, "cannot remove the run record", &error);
        }
        report
    }
}

fn scan(state: &Path, id: &RunId, record: &Record) -> Report {
    let since = record.started.stamp(id.same_boot());
    let mut scan = Scan::new(record, since, Quarantine::new(state, &id.to_string()));
    scan.run();
    let Scan { mut report, repos, policies, .. } = scan;
    for (path, before) in &record.settings {
        let now = stamp(&path.0);
        if now.is_some() && now != *before {
            report.later(path.0.clone(), later::AT_HOME_WHY);
        }
    }
    for root in &record.roots {
        let complete = !report.stopped_early;
        if let Err(error) = remember(state, &root.0, [&repos, &policies], complete) {
            report.fail(&root.0, "cannot remember its repositories", &error);
        }
    }
    report
}

/// Saves the repositories and the configuration files found by a scan for the next run.
fn remember(
    state: &Path,
    root: &Path,
    [repos, policies]: [&BTreeSet<PathBuf>; 2],
    complete: bool,
) -> io::Result<()> {
    let old = Tree::load(state, root);
    let merged = |found: &BTreeSet<PathBuf>, old: Option<&Vec<RawPath>>| {
        let mut all: BTreeSet<_> =
            found.iter().filter(|path| path.starts_with(root)).cloned().collect();
        if !complete {
            // What this scan did not reach stays known until a complete scan does not find it.
            all.extend(old.into_iter().flatten().map(|path| path.0.clone()));
        }
        all.into_iter().map(RawPath).collect()
    };
    let tree = Tree {
        repos: merged(repos, old.as_ref().map(|tree| &tree.repos)),
        policies: merged(policies, old.as_ref().map(|tree| &tree.policies)),
        complete,
    };
    if Some(&tree) == old.as_ref() { Ok(()) } else { tree.save(state, root) }
}

fn new_record(host: &Host, input: &InspectInput<'_>) -> Record {
    let InspectInput { roots, git, config_files } = *input;
    let started = Started::now(roots);
    let raw = |paths: &[PathBuf]| paths.iter().map(|path| RawPath::of(path)).collect::<Vec<_>>();
    let kept = git.watched.iter().filter_map(|path| Baseline::record(path, class(git, path)));
    let mut kept: Vec<_> = kept.collect();
    let mut absent_config = Vec::new();
    for file in config_files {
        match Baseline::record(file, Class::OurConfig) {
            Some(file) => kept.push(file),
            None => absent_config.push(RawPath::of(file)),
        }
    }
    Record {
        roots: raw(roots),
        places: raw(&[roots, &git.writable].concat()),
        complete: !git.stopped_early,
        policies_complete: git.searched && !git.stopped_early,
        started,
        repos: git.repos.iter().map(known_repo).collect(),
        absent: raw(&git.absent),
        absent_config,
        kept,
        links: git
            .links
            .iter()
            .map(|link| (RawPath::of(&link.path), RawPath::of(&link.target)))
            .collect(),
        settings: host.home.iter().flat_map(|home| settings(home)).collect(),
    }
}

fn settings(home: &Path) -> impl Iterator<Item = (RawPath, Option<Stamp>)> {
    agent::running_settings().map(|settings| {
        let path = home.join(settings.file.in_home());
        (RawPath::of(&path), stamp(&path))
    })
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.ctime(), found.ctime_nsec(), found.ino(), found.size()))
}

fn class(git: &GitProtection, path: &Path) -> Class {
    let settings = |name: &std::ffi::OsStr| name == "config" || name == "config.worktree";
    if git.hooks.iter().any(|hooks| hooks == path) {
        Class::Hooks
    } else if path.file_name().is_some_and(settings) {
        Class::Settings
    } else {
        Class::Exact
    }
}

fn known_repo(repo: &Repo) -> KnownRepo {
    let stat = tree::parent(&repo.entry).and_then(|(dir, name)| dir.stat(name));
    KnownRepo {
        entry: RawPath::of(&repo.entry),
        git_dir: RawPath::of(&repo.git_dir),
        common_dir: RawPath::of(&repo.common_dir),
        id: stat.ok().filter(|stat| stat.kind == tree::Kind::Dir).map(Into::into),
    }
}

/// Returns the records whose process is gone.
fn dead_runs(runs: &Path) -> Vec<(RunId, PathBuf)> {
    let Ok(entries) = fs::read_dir(runs) else { return Vec::new() };
    let records = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let id = RunId::parse(name.strip_suffix(".json")?.split_once('.')?.0)?;
        Some((id, entry.path()))
    });
    records.filter(|(id, _)| !id.is_alive()).collect()
}

/// Scans on behalf of a killed run. Returns `None` if that run was in another tree.
fn sweep(state: &Path, id: &RunId, file: &Path, roots: &[PathBuf]) -> io::Result<Option<Report>> {
    let held = match LockFile::existing(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    // When two runs start at the same time, the second waits here. Then the record is gone.
    held.exclusive()?;
    if held.file().metadata()?.nlink() == 0 {
        return Ok(None);
    }
    let Ok(record) = record::read_private::<Record>(file) else {
        // The run was killed while it wrote the record, before it started anything.
        return fs::remove_file(file).map(|()| None);
    };
    // A git directory outside the roots belongs to the whole tree around it.
    let outside = |place: &&RawPath| !record.roots.contains(place);
    let around = record.places.iter().filter(outside).filter_map(|place| place.0.parent());
    let trees: Vec<_> = record.roots.iter().map(|root| root.0.as_path()).chain(around).collect();
    let meets =
        |root: &PathBuf| trees.iter().any(|tree| root.starts_with(tree) || tree.starts_with(root));
    if !roots.iter().any(meets) {
        return Ok(None);
    }
    let report = scan(state, id, &record);
    fs::remove_file(file)?;
    Ok(Some(report))
}
