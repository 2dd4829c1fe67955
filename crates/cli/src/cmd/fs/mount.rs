//! `fs mount` and `fs unmount`.

use std::path::{Path, PathBuf};

use sandbox_layers::folder::{self, FolderError, OverlayDir, existing, names};
use sandbox_layers::mount::record;
use sandbox_layers::mount::{Access, Request, background, foreground};
use sandbox_policy::Host;

use super::ps;
use crate::args::Flags;
use crate::args::fs::{Engine, Mount, MountOptions, Unmount};
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone};
use sandbox_linux::escape::name;

/// Mounts a filesystem, or lists the mounts.
pub(crate) fn mount(
    flags: &Flags,
    mount: &Mount,
    here: &Path,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    let options = &mount.options;
    let (Some(word), Some(mountpoint)) = (&options.target, &options.mountpoint) else {
        return ps::run(flags, host, io);
    };
    if let Some(kept) = OverlayDir::find(word, here)? {
        return match mount.engine {
            Some(Engine::Agentfs) => Err(FolderError::OtherEngine(kept.dir).into()),
            _ => overlay(&kept, options, &here.join(mountpoint), host, io),
        };
    }
    let database = existing(word, here)?;
    if mount.engine == Some(Engine::Overlay) {
        return Err(FolderError::OtherEngine(database).into());
    }
    let access = match (options.system, options.allow_root) {
        (true, _) => Access::All,
        (false, true) => Access::Root,
        (false, false) => Access::Owner,
    };
    let request = Request {
        database,
        mountpoint: here.join(mountpoint),
        access,
        auto_unmount: options.auto_unmount,
        owned: false,
        uid: options.uid,
        gid: options.gid,
        records: records(host),
    }
    .prepared()?;
    let Request { database, mountpoint, .. } = &request;
    let shown = format!("`{}` on `{}`", name(database), name(mountpoint));
    if options.foreground {
        foreground(&request, || io.labelled(Tone::Good, "mounted", &shown))?;
        return Ok(0);
    }
    let pid = background(&request)?;
    if flags.json {
        let value = serde_json::json!({
            "database": database, "mountpoint": mountpoint, "pid": pid, "engine": "agentfs",
        });
        super::super::json(&value, io);
    } else {
        io.labelled(Tone::Good, "mounted", &shown);
    }
    Ok(0)
}

/// Mounts an overlay, which the kernel serves.
fn overlay(
    kept: &OverlayDir,
    options: &MountOptions,
    at: &Path,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    if host.uid != 0 {
        return Err(FolderError::NotRoot.into());
    }
    for (asked, what) in [
        (options.auto_unmount, "`--auto-unmount`: the kernel serves it, not a process"),
        (options.foreground, "`--foreground`: the kernel serves it, not a process"),
        (options.uid.is_some() || options.gid.is_some(), "`--uid` and `--gid`"),
    ] {
        if asked {
            return Err(FolderError::Cannot(what).into());
        }
    }
    let (dir, at) = kept.mount(at, records(host).as_deref())?;
    io.labelled(Tone::Good, "mounted", &format!("`{}` on `{}`", name(&dir), name(&at)));
    Ok(0)
}

/// Unmounts a filesystem, and waits until the database is complete on disk.
pub(crate) fn unmount(asked: &Unmount, here: &Path, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let records = records(host);
    let mut waiting = |holders: &[_]| {
        io.note(&format!("waiting: {} has it in another mount namespace", names(holders)));
    };
    let path = folder::unmount(&asked.target, here, asked.lazy, records.as_deref(), &mut waiting)?;
    io.labelled(Tone::Good, "unmounted", &format!("`{}`", name(&path)));
    Ok(0)
}

/// Returns the directory of the mount records.
fn records(host: &Host) -> Option<PathBuf> {
    host.state_dir().map(|state| record::folder(&state))
}
