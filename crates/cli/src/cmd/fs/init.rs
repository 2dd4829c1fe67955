//! `fs init`: creates a filesystem.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use sandbox_layers::database;
use sandbox_layers::folder::{FOLDER, FolderError, OverlayDir, is_id};

use crate::args::Flags;
use crate::args::fs::{Engine, Init};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, one_line};

/// Creates the database `.agentfs/ID.db`, or the directory of an overlay.
pub(crate) fn run(flags: &Flags, init: &Init, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let id = init.id.clone().unwrap_or_else(by_time);
    if !is_id(OsStr::new(&id)) {
        return Err(FolderError::NoId(id.into()).into());
    }
    if init.engine == Engine::Overlay {
        let base = init.base.as_ref().ok_or(FolderError::NoBase)?;
        let made = OverlayDir::create(&id, base, here)?;
        let text = format!("`{}` over `{}`", made.dir.display(), made.base.display());
        io.labelled(Tone::Good, "created", &one_line(&text));
        return Ok(0);
    }
    let folder = here.join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(|error| Failed::new(error, None))?;
    let path = folder.join(format!("{id}.db"));
    let base = init.base.as_ref().map(|base| here.join(base));
    if init.force {
        database::replace(&path, base.as_deref())?;
    } else {
        database::create(&path, base.as_deref())?;
    }
    report(flags, &id, &path, base.as_deref(), io);
    // The caller does not know a generated ID.
    if init.id.is_none() && !flags.json {
        io.data(&format!("{id}\n"));
    }
    Ok(0)
}

fn report(flags: &Flags, id: &str, path: &Path, base: Option<&Path>, io: &mut Stdio<'_>) {
    if flags.json {
        super::super::json(
            &serde_json::json!({ "id": id, "database": path, "base": base, "engine": "agentfs" }),
            io,
        );
        return;
    }
    let over = base.map(|base| format!(" over `{}`", base.display())).unwrap_or_default();
    io.labelled(Tone::Good, "created", &one_line(&format!("`{}`{over}", path.display())));
    io.labelled(Tone::Quiet, "next", &format!("agent-sandbox fs mount {id} MOUNTPOINT"));
}

fn by_time() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("agent-{}", since.as_secs())
}
