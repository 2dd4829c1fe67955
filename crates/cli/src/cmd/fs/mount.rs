//! `fs mount` and `fs unmount`.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox_core::Host;
use sandbox_layers::mount::record::{self, Record, folder};
use sandbox_layers::mount::{
    Access, Detach, Holder, Mounted, Request, background, detach, foreground, holders,
    is_connected, parent_real, table,
};
use sandbox_protocol::Hint;
use thiserror::Error;

use super::{overlay, ps, target};
use crate::args::Flags;
use crate::args::fs::{Engine, Mount, Unmount};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, one_line};

/// Mounts, or lists what is mounted.
pub(crate) fn mount(
    flags: &Flags,
    mount: &Mount,
    here: &Path,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let (Some(word), Some(mountpoint)) = (&mount.target, &mount.mountpoint) else {
        return ps::run(flags, host, io);
    };
    if let Some(kept) = overlay::find(word, here)? {
        return match mount.engine {
            Some(Engine::Agentfs) => Err(overlay::OverlayError::OtherEngine(kept.dir).into()),
            _ => kept.mount(mount, &here.join(mountpoint), host, io),
        };
    }
    if mount.engine == Some(Engine::Overlay) {
        return Err(overlay::OverlayError::OtherEngine(target::existing(word, here)?).into());
    }
    let access = match (mount.system, mount.allow_root) {
        (true, _) => Access::All,
        (false, true) => Access::Root,
        (false, false) => Access::Owner,
    };
    let request = Request {
        database: target::existing(word, here)?,
        mountpoint: here.join(mountpoint),
        access,
        auto_unmount: mount.auto_unmount,
        owned: false,
        uid: mount.uid,
        gid: mount.gid,
        records: host.state_dir().map(|state| folder(&state)),
    }
    .prepared()?;
    let shown = one_line(&format!(
        "`{}` on `{}`",
        request.database.display(),
        request.mountpoint.display()
    ));
    if mount.foreground {
        foreground(&request, || io.labelled(Tone::Good, "mounted", &shown))?;
        return Ok(0);
    }
    let pid = background(&request)?;
    if flags.json {
        let value = serde_json::json!({
            "database": request.database, "mountpoint": request.mountpoint, "pid": pid, "engine": "agentfs",
        });
        super::super::json(&value, io);
    } else {
        io.labelled(Tone::Good, "mounted", &shown);
    }
    Ok(0)
}

#[derive(Debug, Error)]
enum UnmountError {
    #[error("nothing of ours is mounted on `{}`", .0.display())]
    NotMounted(PathBuf),
    #[error("`{}` is mounted in {count} places", database.display())]
    Several { database: PathBuf, count: usize },
    #[error("cannot unmount `{}`", path.display())]
    Refused { path: PathBuf, source: io::Error },
    #[error("`{}` is unmounted, but process {pid} still takes its content in", path.display())]
    Slow { path: PathBuf, pid: i32 },
    #[error("`{}` is unmounted here, but {} has it in another mount namespace", path.display(), names(holders))]
    Held { path: PathBuf, holders: Vec<Holder>, pid: i32 },
}

impl Hint for UnmountError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NotMounted(_) => "`agent-sandbox fs ps` lists what is mounted",
            Self::Several { .. } => "name the mountpoint",
            Self::Refused { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
                "a program uses it, or is in it; end that, or use `--lazy`"
            }
            Self::Refused { .. } => "only the user who mounted it and root can unmount it",
            Self::Slow { .. } => "nothing is lost: the next mount goes on with it",
            Self::Held { pid, .. } => {
                return Some(format!("end that process, or cut it off: kill {pid}"));
            }
        };
        Some(text.to_owned())
    }
}

/// Unmounts, and waits until the database is at rest.
pub(crate) fn unmount(asked: &Unmount, here: &Path, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let folder = host.state_dir().map(|state| folder(&state));
    let mounts = record::list(folder.as_deref()).map_err(|error| Failed::new(error, None))?;
    let found = find(&asked.target, here, &mounts)?.clone();
    let how = match found.state {
        record::State::Stale => Detach::Lazy,
        _ if asked.lazy => Detach::Lazy,
        _ => Detach::Idle,
    };
    let records = folder.as_deref().map(record::read).unwrap_or_default();
    let record = records.into_iter().find(|(_, record)| record.mountpoint == found.mountpoint);
    let path = found.mountpoint.clone();
    let row = table::at(&path).ok().flatten();
    take_away(&path, how).map_err(|source| UnmountError::Refused { path: path.clone(), source })?;
    if let Some((file, record)) = record {
        if how == Detach::Idle {
            settled(&record, row.as_ref(), io)?;
        }
        if !record.is_alive() {
            let _ = std::fs::remove_file(file);
        }
    }
    io.labelled(Tone::Good, "unmounted", &one_line(&format!("`{}`", path.display())));
    Ok(0)
}

/// Takes a mount away. Somebody may just have had a look at it, so that is tried for a moment.
fn take_away(path: &Path, how: Detach) -> io::Result<()> {
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

/// The mount that a word means: by mountpoint, else by database.
fn find<'m>(word: &OsStr, here: &Path, mounts: &'m [Mounted]) -> Result<&'m Mounted, Failed> {
    let path = here.join(word);
    let real = parent_real(&path).unwrap_or(path);
    // The last one is on top.
    if let Some(mount) = mounts.iter().rfind(|mount| mount.mountpoint == real) {
        return Ok(mount);
    }
    let kept = overlay::find(word, here)?.map(|kept| kept.dir);
    let database = kept.or_else(|| target::place(word, here).ok());
    let database = database.and_then(|path| path.canonicalize().ok());
    let of = |mount: &&Mounted| Some(&mount.database) == database.as_ref();
    match (mounts.iter().filter(of).count(), database.clone()) {
        (1, _) => mounts.iter().find(of).ok_or_else(|| UnmountError::NotMounted(real).into()),
        (0, _) | (_, None) => Err(UnmountError::NotMounted(real).into()),
        (count, Some(database)) => Err(UnmountError::Several { database, count }.into()),
    }
}

/// How long the content of a mount may take to be taken in.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long a daemon may take to notice that its mount is gone.
const NOTICE: Duration = Duration::from_secs(2);
/// How long a mount in another mount namespace is waited for. Programs that end soon may have it by
/// accident: a namespace begins with a copy of all mounts.
const ELSEWHERE: Duration = Duration::from_secs(20);

/// Waits for the end of the process that served a mount. It does not end while the mount is in
/// another mount namespace.
fn settled(
    record: &Record,
    row: Option<&table::Row>,
    io: &mut Stdio<'_>,
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
            // Where the kernel says that the connection is there, some namespace has it, seen or not.
            let held = !holders.is_empty() || is_connected(&row.device) == Some(true);
            if held && begun.elapsed() > ELSEWHERE {
                return Err(UnmountError::Held { path, holders, pid });
            }
            if held && !std::mem::replace(&mut told, true) {
                let text =
                    format!("waiting: {} has it in another mount namespace", names(&holders));
                io.labelled(Tone::Warning, "note", &text);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn names(holders: &[Holder]) -> String {
    const MOST: usize = 5;
    let mut names: Vec<String> =
        holders.iter().take(MOST).map(|one| one_line(&one.to_string())).collect();
    match holders.len() {
        0 => return "a process that cannot be read".into(),
        count if count > MOST => names.push(format!("{} more", count - MOST)),
        _ => {}
    }
    names.join(", ")
}
