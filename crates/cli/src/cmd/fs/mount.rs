//! `fs mount` and `fs unmount`.

use std::path::{Path, PathBuf};

use sandbox_layers::folder::{self, FolderError, OverlayDir, existing, names};
use sandbox_layers::mount::record;
use sandbox_layers::mount::{Access, Request, background, foreground};
use sandbox_policy::Host;

use super::ps;
use crate::args::Flags;
use crate::args::fs::{Engine, Mount, Unmount};
use crate::failed::Outcome;
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
    if let Some(kept) = OverlayDir::find(word, here)? {
        return match mount.engine {
            Some(Engine::Agentfs) => Err(FolderError::OtherEngine(kept.dir).into()),
            _ => overlay(&kept, mount, &here.join(mountpoint), host, io),
        };
    }
    let database = existing(word, here)?;
    if mount.engine == Some(Engine::Overlay) {
        return Err(FolderError::OtherEngine(database).into());
    }
    let access = match (mount.system, mount.allow_root) {
        (true, _) => Access::All,
        (false, true) => Access::Root,
        (false, false) => Access::Owner,
    };
    let request = Request {
        database,
        mountpoint: here.join(mountpoint),
        access,
        auto_unmount: mount.auto_unmount,
        owned: false,
        uid: mount.uid,
        gid: mount.gid,
        records: records(host),
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

/// Mounts a layer that the kernel serves.
fn overlay(
    kept: &OverlayDir,
    mount: &Mount,
    at: &Path,
    host: &Host,
    io: &mut Stdio<'_>,
) -> Outcome {
    if host.uid != 0 {
        return Err(FolderError::NotRoot.into());
    }
    for (asked, what) in [
        (mount.auto_unmount, "`--auto-unmount`: no process serves it that could end"),
        (mount.foreground, "`--foreground`: no process serves it"),
        (mount.uid.is_some() || mount.gid.is_some(), "`--uid` and `--gid`"),
    ] {
        if asked {
            return Err(FolderError::Cannot(what).into());
        }
    }
    let (dir, at) = kept.mount(at, records(host).as_deref())?;
    let text = format!("`{}` on `{}`", dir.display(), at.display());
    io.labelled(Tone::Good, "mounted", &one_line(&text));
    Ok(0)
}

/// Unmounts, and waits until the database is at rest.
pub(crate) fn unmount(asked: &Unmount, here: &Path, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let records = records(host);
    let mut waiting = |holders: &[_]| {
        let text = format!("waiting: {} has it in another mount namespace", names(holders));
        io.labelled(Tone::Warning, "note", &text);
    };
    let path = folder::unmount(&asked.target, here, asked.lazy, records.as_deref(), &mut waiting)?;
    io.labelled(Tone::Good, "unmounted", &one_line(&format!("`{}`", path.display())));
    Ok(0)
}

/// Returns the folder with the list of mounts.
fn records(host: &Host) -> Option<PathBuf> {
    host.state_dir().map(|state| record::folder(&state))
}
