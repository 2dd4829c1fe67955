//! The other way to keep a filesystem: a directory that the kernel lays over the base.
//!
//! `.agentfs/ID.overlay` holds `base`, the path of the base; `upper`, what changed; and `work`, which
//! the kernel needs. The same attributes as in sessions mark what is gone.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use sandbox_core::Host;
use sandbox_layers::mount::record::{Record, folder, list};
use sandbox_layers::mount::table;
use sandbox_layers::overlay::Stack;
use sandbox_protocol::Hint;
use thiserror::Error;

use super::target::{FOLDER, is_id};
use crate::args::fs::{Init, Mount};
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, one_line};

/// A filesystem that is kept this way.
pub(super) struct Kept {
    pub(super) dir: PathBuf,
    pub(super) base: PathBuf,
}

#[derive(Debug, Error)]
pub(super) enum OverlayError {
    #[error("an overlay needs something to lie on")]
    NoBase,
    #[error("`{}` is there already", .0.display())]
    Exists(PathBuf),
    #[error("the kernel lets only root mount an overlay where everybody sees it")]
    NotRoot,
    #[error("the overlay engine does not do {0}")]
    Cannot(&'static str),
    #[error("`{}` is kept by the other engine", .0.display())]
    OtherEngine(PathBuf),
    #[error("`{}` is already mounted on `{}`", dir.display(), at.display())]
    Mounted { dir: PathBuf, at: PathBuf },
    #[error("cannot {verb} `{}`", path.display())]
    Io { verb: &'static str, path: PathBuf, source: io::Error },
}

impl Hint for OverlayError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoBase => "name it with `--base DIR`",
            Self::Exists(_) => "remove it yourself, or choose another ID",
            Self::NotRoot => {
                "make it with `--engine agentfs`, which every user can mount; or `agent-sandbox --cow`, whose overlay is the sandbox's own"
            }
            Self::Cannot(_) => "make it with `--engine agentfs`",
            Self::OtherEngine(_) => "leave `--engine` out: the engine is chosen by `fs init`",
            Self::Mounted { .. } => {
                "two mounts of one layer spoil it: unmount the first, `agent-sandbox fs unmount`"
            }
            Self::Io { .. } => "`agent-sandbox doctor` says what this machine offers",
        };
        Some(text.to_owned())
    }
}

fn failed(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OverlayError {
    let path = path.to_owned();
    move |source| OverlayError::Io { verb, path, source }
}

/// Makes one.
pub(super) fn init(init: &Init, id: &str, here: &Path, io: &mut Stdio<'_>) -> Outcome {
    let base = init.base.as_ref().ok_or(OverlayError::NoBase)?;
    let base = here.join(base);
    let base = base.canonicalize().map_err(failed("open", &base))?;
    fs::read_dir(&base).map_err(failed("open", &base))?;
    let dir = here.join(FOLDER).join(format!("{id}.overlay"));
    if fs::symlink_metadata(&dir).is_ok() {
        return Err(OverlayError::Exists(dir).into());
    }
    let draft = here.join(FOLDER).join(format!(".{id}.overlay.draft"));
    // What a killed run has left.
    let _ = fs::remove_dir_all(&draft);
    fill(&draft, &base)?;
    // It appears whole or not at all.
    fs::rename(&draft, &dir).map_err(failed("make", &dir))?;
    let text = format!("`{}` over `{}`", dir.display(), base.display());
    io.labelled(Tone::Good, "created", &one_line(&text));
    Ok(0)
}

fn fill(dir: &Path, base: &Path) -> Result<(), OverlayError> {
    for part in ["upper", "work"] {
        let part = dir.join(part);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&part);
        made.map_err(failed("make", &part))?;
    }
    // The root of the view is the upper directory: it looks like the base's own. Only root can give
    // it away, and only root mounts it.
    let (upper, about) = (dir.join("upper"), fs::metadata(base).map_err(failed("open", base))?);
    if sandbox_linux::process::uid() == 0 {
        let (uid, gid) = (Some(about.uid()), Some(about.gid()));
        std::os::unix::fs::chown(&upper, uid, gid).map_err(failed("give away", &upper))?;
    }
    fs::set_permissions(&upper, about.permissions()).map_err(failed("make", &upper))?;
    fs::write(dir.join("base"), base.as_os_str().as_bytes()).map_err(failed("write", dir))
}

/// The one that a word means, if it is kept this way.
pub(super) fn find(word: &OsStr, here: &Path) -> Result<Option<Kept>, Failed> {
    if !is_id(word) {
        return Ok(None);
    }
    let mut name = word.to_owned();
    name.push(".overlay");
    let dir = here.join(FOLDER).join(name);
    if !dir.is_dir() {
        return Ok(None);
    }
    let file = dir.join("base");
    let base = fs::read(&file).map_err(failed("read", &file))?;
    Ok(Some(Kept { base: PathBuf::from(std::ffi::OsString::from_vec(base)), dir }))
}

impl Kept {
    /// What it holds.
    pub(super) fn layer(&self) -> Result<Stack, Failed> {
        let upper = self.dir.join("upper");
        let opened = Stack::open(std::slice::from_ref(&upper), &self.base);
        Ok(opened.map_err(failed("open", &upper))?)
    }

    /// Mounts it. The kernel serves it, so there is no process to start.
    pub(super) fn mount(
        &self,
        mount: &Mount,
        at: &Path,
        host: &Host,
        io: &mut Stdio<'_>,
    ) -> Outcome {
        if host.uid != 0 {
            return Err(OverlayError::NotRoot.into());
        }
        for (asked, what) in [
            (mount.auto_unmount, "`--auto-unmount`: no process serves it that could end"),
            (mount.foreground, "`--foreground`: no process serves it"),
            (mount.uid.is_some() || mount.gid.is_some(), "`--uid` and `--gid`"),
        ] {
            if asked {
                return Err(OverlayError::Cannot(what).into());
            }
        }
        let at = at.canonicalize().map_err(failed("mount on", at))?;
        let dir = self.dir.canonicalize().map_err(failed("open", &self.dir))?;
        if let Some(at) = mounted(&dir, host) {
            return Err(OverlayError::Mounted { dir, at }.into());
        }
        let lower = [self.base.clone()];
        sandbox_linux::mount::overlay(&lower, &dir.join("upper"), &dir.join("work"), &at)
            .map_err(failed("mount on", &at))?;
        let row = table::at(&at).map_err(failed("mount on", &at))?;
        let record = Record {
            database: dir.clone(),
            base: Some(self.base.clone()),
            mountpoint: at.clone(),
            mount: row.map_or(0, |row| row.id),
            pid: 0,
            started: 0,
            engine: "overlay".to_owned(),
        };
        if let Some(state) = host.state_dir() {
            record.save(&folder(&state)).map_err(failed("write", &state))?;
        }
        let text = format!("`{}` on `{}`", dir.display(), at.display());
        io.labelled(Tone::Good, "mounted", &one_line(&text));
        Ok(0)
    }
}

/// Where a layer is mounted already, as far as this mount namespace shows: by our own list, or by the
/// kernel's, whose options name the layer.
fn mounted(dir: &Path, host: &Host) -> Option<PathBuf> {
    let records = host.state_dir().map(|state| folder(&state));
    let mut list = list(records.as_deref()).unwrap_or_default().into_iter();
    if let Some(found) = list.find(|mount| mount.database == dir) {
        return Some(found.mountpoint);
    }
    let upper = format!("upperdir={}", dir.join("upper").display());
    let table = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut rows = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let row = rows.find(|row| {
        let named = |options: &&str| options.split(',').any(|option| option == upper);
        row.get(2) == Some(&"overlay") && row.get(3).is_some_and(named)
    })?;
    row.get(1).map(PathBuf::from)
}
