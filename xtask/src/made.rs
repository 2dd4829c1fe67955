//! Record of everything outside the target directory that a task makes, so that it is undone however the task ends.
//!
//! Each thing is recorded before it is made, as a file in the scratch directory. A task that ends undoes its records.
//! Where a signal ends it, `./dev` starts the executable that the record names once more, to do the same.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::command::{as_root, temporary};
use crate::say::{Context, Failure, Outcome};
use crate::{engine, host, users};

/// Thing that a task has made.
#[derive(Debug)]
pub(crate) enum Thing {
    /// Directory, with all that is in it.
    Folder(PathBuf),
    /// User with a home.
    User(String),
    /// Docker daemon in a directory, with the number of its network.
    Docker(PathBuf, u32),
    /// Container engine: a process group, which mounts below a directory.
    Engine(u32, PathBuf),
    /// Earlier mode of `/dev/fuse`.
    FuseMode(String),
    /// Process of ours.
    Process(u32),
}

impl Thing {
    fn write(&self) -> String {
        match self {
            Self::Folder(path) => format!("folder\n{}", path.display()),
            Self::User(name) => format!("user\n{name}"),
            Self::Docker(path, number) => format!("docker\n{}\n{number}", path.display()),
            Self::Engine(group, path) => format!("engine\n{group}\n{}", path.display()),
            Self::FuseMode(mode) => format!("fuse\n{mode}"),
            Self::Process(pid) => format!("process\n{pid}"),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.lines().collect();
        Some(match words[..] {
            ["folder", path] => Self::Folder(path.into()),
            ["user", name] => Self::User(name.into()),
            ["docker", path, number] => Self::Docker(path.into(), number.parse().ok()?),
            ["engine", group, path] => Self::Engine(group.parse().ok()?, path.into()),
            ["fuse", mode] => Self::FuseMode(mode.into()),
            ["process", pid] => Self::Process(pid.parse().ok()?),
            _ => return None,
        })
    }

    fn undo(&self) -> Outcome {
        match self {
            Self::Folder(path) => remove(path),
            Self::User(name) => users::remove(name),
            Self::Docker(path, number) => engine::remove(path, *number),
            Self::Engine(group, path) => engine::stop_group(*group, path),
            Self::FuseMode(mode) => host::set_fuse_mode(mode),
            Self::Process(pid) => {
                crate::command::succeeds(Command::new("kill").arg(pid.to_string()));
                Ok(())
            }
        }
    }
}

fn remove(path: &Path) -> Outcome {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            crate::command::run(as_root("rm").arg("-rf").arg(path))
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context(format_args!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Records of one task, in a scratch directory.
#[derive(Debug)]
pub(crate) struct Made {
    scratch: PathBuf,
    /// True when no `./dev` removes the directory.
    ours: bool,
    next: AtomicUsize,
}

/// Name of a record; the thing can be undone before the end.
#[derive(Debug)]
pub(crate) struct Record(PathBuf);

impl Record {
    /// Undoes one thing before the end.
    pub(crate) fn undo(&self) -> Outcome {
        undo(&self.0)
    }
}

impl Made {
    pub(crate) fn open(scratch: Option<OsString>) -> Result<Self, Failure> {
        let ours = scratch.is_none();
        let scratch = match scratch {
            Some(scratch) => PathBuf::from(scratch),
            None => temporary("/tmp/as-dev.XXXXXX")?,
        };
        let this = env::current_exe().context("find this executable")?;
        // A copy by link: `clean-up` must work while cargo replaces the executable.
        let copy = scratch.join("xtask");
        if fs::hard_link(&this, &copy).is_err() {
            symlink(&this, &copy).context(format_args!("write {}", copy.display()))?;
        }
        Ok(Self { scratch, ours, next: AtomicUsize::new(0) })
    }

    /// Returns a path in the scratch directory, whose name no one else uses.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.scratch.join(format!("{name}.{}", self.next.fetch_add(1, Ordering::Relaxed)))
    }

    /// Records a thing that is about to be made.
    pub(crate) fn record(&self, thing: &Thing) -> Result<Record, Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.scratch.join(format!("made.{number:04}"));
        fs::write(&path, thing.write()).context(format_args!("write {}", path.display()))?;
        Ok(Record(path))
    }

    /// Undoes everything, the last first.
    pub(crate) fn undo_all(&self) -> Outcome {
        let outcome = undo_all(&self.scratch);
        if self.ours { outcome.and(remove(&self.scratch)) } else { outcome }
    }
}

fn undo(record: &Path) -> Outcome {
    let text = fs::read_to_string(record).context(format_args!("read {}", record.display()))?;
    let thing = Thing::read(&text);
    let thing =
        thing.ok_or_else(|| Failure::new(format!("invalid record {}", record.display())))?;
    let outcome = thing.undo();
    fs::remove_file(record).context(format_args!("remove {}", record.display()))?;
    outcome
}

fn undo_all(scratch: &Path) -> Outcome {
    let entries = fs::read_dir(scratch).context(format_args!("read {}", scratch.display()))?;
    let is_record = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == "made");
    let mut records: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(is_record).collect();
    records.sort();
    let mut outcome = Ok(());
    for record in records.iter().rev() {
        if let Err(failure) = undo(record) {
            failure.print();
            outcome = Err(Failure::new("clean-up is incomplete"));
        }
    }
    outcome
}

/// Undoes what an earlier process of this executable has made, in the directory that the executable's link is in.
pub(crate) fn clean_up_here() -> ExitCode {
    let Some(link) = env::args_os().next().map(PathBuf::from) else { return ExitCode::FAILURE };
    match undo_all(link.parent().unwrap_or(Path::new("."))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thing_is_read_as_it_was_written() {
        for thing in [
            Thing::Folder("/var/tmp/x y".into()),
            Thing::User("as-test-1".into()),
            Thing::Docker("/var/tmp/d".into(), 7),
            Thing::Engine(12, "/opt/t".into()),
            Thing::FuseMode("600".into()),
            Thing::Process(12),
        ] {
            let again = Thing::read(&thing.write()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{thing:?}"));
        }
        assert!(Thing::read("folder").is_none());
    }
}
