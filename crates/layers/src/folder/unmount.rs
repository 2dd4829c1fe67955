//! Unmounting, until the database is closed.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox_linux::escape::one_line;
use sandbox_protocol::{ExitCode, Hint};
use thiserror::Error;

use super::{FolderError, OverlayDir, place};
use crate::mount::record::{self, MountRecord};
use crate::mount::{
    Detach, Holder, MountState, Mounted, detach, holders, is_connected, parent_real, table,
};

/// Reason why unmounting failed.
#[derive(Debug, Error)]
pub enum UnmountError {
    /// No mount of agent-sandbox.
    #[error("no agent-sandbox filesystem is mounted on `{}`", .0.display())]
    NotMounted(PathBuf),
    /// Database with several mounts.
    #[error("`{}` has {count} mounts", database.display())]
    Several {
        /// The database.
        database: PathBuf,
        /// Number of mounts.
        count: usize,
    },
    /// Refusal of the kernel.
    #[error("cannot unmount `{}`", path.display())]
    Refused {
        /// Mountpoint.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Busy process of the mount.
    #[error("`{}` is unmounted, but process {pid} is still writing its changes to the database", path.display())]
    Slow {
        /// Mountpoint.
        path: PathBuf,
        /// Pid.
        pid: i32,
    },
    /// Copy of the mount in another mount namespace.
    #[error("`{}` is unmounted here, but {} has it in another mount namespace", path.display(), names(holders))]
    Held {
        /// Mountpoint.
        path: PathBuf,
        /// Processes that have the copy.
        holders: Vec<Holder>,
        /// Pid of the process that serves the mount.
        pid: i32,
    },
    /// Mount table that cannot be read.
    #[error(transparent)]
    List(#[from] io::Error),
    /// Word that does not refer to a filesystem.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl Hint for UnmountError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NotMounted(_) => "`agent-sandbox fs ps` lists the mounts",
            Self::Several { .. } => "pass the mountpoint",
            Self::Refused { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
                "a program uses it, or has its working directory in it; end the program or pass `--lazy`"
            }
            Self::Refused { .. } => "only the user who mounted it and root can unmount it",
            Self::Slow { .. } => "no data is lost; the next mount completes this",
            Self::Folder(error) => return error.hint(),
            Self::List(_) => return None,
            Self::Held { pid, .. } => {
                return Some(format!("end that process, or disconnect it: kill {pid}"));
            }
        };
        Some(text.to_owned())
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Folder(error) => error.exit_code(),
            _ => ExitCode::Setup,
        }
    }
}

/// Unmounts a filesystem, waits until its database is closed, and returns the mountpoint. `waiting` receives the
/// processes that have the mount in another mount namespace.
pub fn unmount(
    word: &OsStr,
    here: &Path,
    lazy: bool,
    records: Option<&Path>,
    waiting: &mut dyn FnMut(&[Holder]),
) -> Result<PathBuf, UnmountError> {
    let mounts = record::list(records)?;
    let found = find(word, here, &mounts)?;
    let how = if lazy || found.state == MountState::Stale { Detach::Lazy } else { Detach::Idle };
    let path = found.mountpoint.clone();
    let mut records = records.map(record::read).unwrap_or_default().into_iter();
    let record = records.find(|(_, record)| record.mountpoint == path);
    let row = table::at(&path).ok().flatten();
    try_detach(&path, how)
        .map_err(|source| UnmountError::Refused { path: path.clone(), source })?;
    if let Some((file, record)) = record {
        if how == Detach::Idle {
            settled(&record, row.as_ref(), waiting)?;
        }
        if !record.is_alive() {
            let _ = std::fs::remove_file(file);
        }
    }
    Ok(path)
}

/// Detaches a mount. Retries for a moment, because a program may be accessing it briefly.
fn try_detach(path: &Path, how: Detach) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match detach(path, how) {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy
                    && begun.elapsed() < Duration::from_millis(500) =>
            {
                std::thread::sleep(Duration::from_millis(25));
            }
            done => return done,
        }
    }
}

/// Finds a mount by its mountpoint, or else by its database.
fn find<'m>(word: &OsStr, here: &Path, mounts: &'m [Mounted]) -> Result<&'m Mounted, UnmountError> {
    let path = here.join(word);
    let real = parent_real(&path).unwrap_or(path);
    // The last mount on a mountpoint is the visible one.
    if let Some(mount) = mounts.iter().rfind(|mount| mount.mountpoint == real) {
        return Ok(mount);
    }
    let kept = OverlayDir::find(word, here)?.map(|kept| kept.dir);
    let database = kept.or_else(|| place(word, here).ok());
    let database = database.and_then(|path| path.canonicalize().ok());
    let of = |mount: &&Mounted| Some(&mount.database) == database.as_ref();
    match (mounts.iter().filter(of).count(), database.clone()) {
        (1, _) => mounts.iter().find(of).ok_or_else(|| UnmountError::NotMounted(real)),
        (0, _) | (_, None) => Err(UnmountError::NotMounted(real)),
        (count, Some(database)) => Err(UnmountError::Several { database, count }),
    }
}

/// Time limit for a daemon to close its database.
const PATIENCE: Duration = Duration::from_secs(600);

/// Time limit for a daemon to notice that its mount is gone.
const NOTICE: Duration = Duration::from_secs(2);
/// Time limit for a mount in another mount namespace. Short-lived programs may have it accidentally, because a new
/// mount namespace is a copy with all mounts: `mount_namespaces(7)`.
const ELSEWHERE: Duration = Duration::from_secs(20);

/// Waits for the end of the process that served a mount. It keeps running while another mount namespace has the mount.
fn settled(
    record: &MountRecord,
    row: Option<&table::Row>,
    waiting: &mut dyn FnMut(&[Holder]),
) -> Result<(), UnmountError> {
    let (path, pid) = (record.mountpoint.clone(), record.pid);
    let begun = Instant::now();
    let (mut told, mut next) = (false, NOTICE);
    while record.is_alive() {
        if begun.elapsed() > PATIENCE {
            return Err(UnmountError::Slow { path, pid });
        }
        if let Some(row) = row.filter(|_| begun.elapsed() > next) {
            next = begun.elapsed() + Duration::from_millis(500);
            let holders = holders(&row.device);
            // If the kernel lists the connection, some namespace has the mount, even if its processes cannot be found.
            let held = !holders.is_empty() || is_connected(&row.device) == Some(true);
            if held && begun.elapsed() > ELSEWHERE {
                return Err(UnmountError::Held { path, holders, pid });
            }
            if held && !std::mem::replace(&mut told, true) {
                waiting(&holders);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Lists the first few holders of a mount.
pub fn names(holders: &[Holder]) -> String {
    const MOST: usize = 5;
    let mut names: Vec<String> =
        holders.iter().take(MOST).map(|one| one_line(&one.to_string())).collect();
    match holders.len() {
        0 => return "an unknown process".into(),
        count if count > MOST => names.push(format!("{} more", count - MOST)),
        _ => {}
    }
    names.join(", ")
}
