//! Kernel overlay layer: `ID.overlay` contains `base`, the path of the base; `upper`, the changes; and `work`, which
//! the kernel needs. Deletions are marked by the same attributes as in sessions.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{FOLDER, FolderError, is_id};
use crate::mount::record::{MountRecord, list};
use crate::mount::table;
use crate::overlay::Stack;

/// Overlay layer.
#[derive(Debug)]
pub struct OverlayDir {
    /// Its directory.
    pub dir: PathBuf,
    /// Base directory.
    pub base: PathBuf,
}

impl OverlayDir {
    /// Creates a layer, completely or not at all.
    pub fn create(id: &str, base: &Path, here: &Path) -> Result<Self, FolderError> {
        let base = here.join(base);
        let base = base.canonicalize().map_err(FolderError::io("open", &base))?;
        fs::read_dir(&base).map_err(FolderError::io("open", &base))?;
        let dir = here.join(FOLDER).join(format!("{id}.overlay"));
        if fs::symlink_metadata(&dir).is_ok() {
            return Err(FolderError::Exists(dir));
        }
        let draft = here.join(FOLDER).join(format!(".{id}.overlay.draft"));
        // Left by a killed run.
        let _ = fs::remove_dir_all(&draft);
        fill(&draft, &base)?;
        fs::rename(&draft, &dir).map_err(FolderError::io("make", &dir))?;
        Ok(Self { dir, base })
    }

    /// Returns the layer that a word refers to, if there is one.
    pub fn find(word: &OsStr, here: &Path) -> Result<Option<Self>, FolderError> {
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
        let base = fs::read(&file).map_err(FolderError::io("read", &file))?;
        Ok(Some(Self { base: PathBuf::from(OsString::from_vec(base)), dir }))
    }

    /// Opens the layer for reading.
    pub fn layer(&self) -> Result<Stack, FolderError> {
        let upper = self.dir.join("upper");
        let opened = Stack::open(std::slice::from_ref(&upper), &self.base);
        opened.map_err(FolderError::io("open", &upper))
    }

    /// Mounts the layer and returns the real paths of layer and mountpoint. The kernel serves it, so no process is
    /// started. Requires root.
    pub fn mount(
        &self,
        at: &Path,
        records: Option<&Path>,
    ) -> Result<(PathBuf, PathBuf), FolderError> {
        if sandbox_linux::process::uid() != 0 {
            return Err(FolderError::NotRoot);
        }
        let at = at.canonicalize().map_err(FolderError::io("mount on", at))?;
        let dir = self.dir.canonicalize().map_err(FolderError::io("open", &self.dir))?;
        if let Some(at) = mounted(&dir, records) {
            return Err(FolderError::Mounted { dir, at });
        }
        let lower = [self.base.clone()];
        sandbox_linux::mount::overlay(&lower, &dir.join("upper"), &dir.join("work"), &at)
            .map_err(FolderError::io("mount on", &at))?;
        let row = table::at(&at).map_err(FolderError::io("mount on", &at))?;
        let record = MountRecord {
            database: dir.clone(),
            base: Some(self.base.clone()),
            mountpoint: at.clone(),
            mount: row.map_or(0, |row| row.id),
            pid: 0,
            started: 0,
            engine: "overlay".to_owned(),
        };
        if let Some(records) = records {
            record.save(records).map_err(FolderError::io("write", records))?;
        }
        Ok((dir, at))
    }
}

fn fill(dir: &Path, base: &Path) -> Result<(), FolderError> {
    for part in ["upper", "work"] {
        let part = dir.join(part);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&part);
        made.map_err(FolderError::io("make", &part))?;
    }
    // The root of the view is the upper directory, so it needs the owner and mode of the base. Only root can change
    // the owner, and only root mounts the layer.
    let (upper, about) =
        (dir.join("upper"), fs::metadata(base).map_err(FolderError::io("open", base))?);
    if sandbox_linux::process::uid() == 0 {
        let (uid, gid) = (Some(about.uid()), Some(about.gid()));
        std::os::unix::fs::chown(&upper, uid, gid)
            .map_err(FolderError::io("change the owner of", &upper))?;
    }
    fs::set_permissions(&upper, about.permissions()).map_err(FolderError::io("make", &upper))?;
    fs::write(dir.join("base"), base.as_os_str().as_bytes()).map_err(FolderError::io("write", dir))
}

/// Returns the mountpoint of a mounted layer, as far as this mount namespace shows. Checks the records of mounts and
/// the options in the kernel's mount table.
fn mounted(dir: &Path, records: Option<&Path>) -> Option<PathBuf> {
    let mut list = list(records).unwrap_or_default().into_iter();
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
