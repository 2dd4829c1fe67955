//! Directories of layers.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::disk;
use super::error::{SessionError, cannot};
use super::lock::Lock;
use super::record::{LayerEngine, LayerId, RootKind};
use crate::database;

/// Directory `DATA/layers`.
#[derive(Debug, Clone)]
pub(super) struct Layers {
    data: PathBuf,
    dir: PathBuf,
}

impl Layers {
    pub(super) fn at(data: &Path) -> Self {
        Self { dir: data.join("layers"), data: data.to_path_buf() }
    }

    /// Returns the directory that contains layers and sessions.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// Locks the creation and removal of sessions and layers, so that no new layer is swept before a record names it.
    pub(super) fn guard(&self) -> Result<Lock, SessionError> {
        let dir = self.data.join("sessions");
        disk::private_dir(&dir)?;
        Lock::take(&dir.join("lock"))
    }

    /// Returns the directory of a layer.
    pub(super) fn dir(&self, id: &LayerId) -> PathBuf {
        self.dir.join(&id.0)
    }

    /// Returns the upper directory of the overlay engine.
    pub(super) fn upper(&self, id: &LayerId) -> PathBuf {
        self.dir(id).join("upper")
    }

    /// Creates an empty layer. Its root gets the mode and owner of the base.
    pub(super) fn create(
        &self,
        base: &Path,
        kind: RootKind,
        engine: LayerEngine,
    ) -> Result<LayerId, SessionError> {
        let id = LayerId(disk::unique()?);
        disk::private_dir(&self.dir(&id))?;
        if (engine, kind) == (LayerEngine::Agentfs, RootKind::Dir) {
            database::create(&self.database(&id), Some(base))?;
            return Ok(id);
        }
        let upper = self.upper(&id);
        fs::create_dir(&upper).map_err(cannot("create", &upper))?;
        let like_base = match kind {
            RootKind::Dir => like(&upper, base),
            RootKind::File => Ok(()),
        };
        like_base.map_err(cannot("create", &upper))?;
        Ok(id)
    }

    /// Returns the database of the engine `agentfs`.
    pub(super) fn database(&self, id: &LayerId) -> PathBuf {
        self.dir(id).join("delta.db")
    }

    /// Copies a layer that is not in use.
    pub(super) fn copy(&self, id: &LayerId) -> Result<LayerId, SessionError> {
        let copy = LayerId(disk::unique()?);
        disk::private_dir(&self.dir(&copy))?;
        copy_dir(&self.dir(id), &self.dir(&copy))?;
        Ok(copy)
    }

    /// Removes layers that no record names.
    pub(super) fn sweep(&self, named: &BTreeSet<LayerId>) -> Result<(), SessionError> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(cannot("list", &self.dir))?,
        };
        for entry in entries.filter_map(Result::ok) {
            let id = entry.file_name().to_str().map(|name| LayerId(name.to_owned()));
            if id.is_none_or(|id| !named.contains(&id)) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

fn like(upper: &Path, base: &Path) -> io::Result<()> {
    let base = fs::symlink_metadata(base)?;
    if sandbox_linux::process::uid() == 0 {
        std::os::unix::fs::lchown(upper, Some(base.uid()), Some(base.gid()))?;
    }
    fs::set_permissions(upper, fs::Permissions::from_mode(base.mode() & 0o7777))
}

/// Copies the directory of a layer, which holds a database that is not in use or a single file.
fn copy_dir(from: &Path, to: &Path) -> Result<(), SessionError> {
    for entry in fs::read_dir(from).map_err(cannot("list", from))? {
        let entry = entry.map_err(cannot("list", from))?;
        let place = to.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            fs::create_dir(&place).map_err(cannot("create", &place))?;
            copy_dir(&entry.path(), &place)?;
        } else {
            fs::copy(entry.path(), &place).map_err(cannot("copy", &entry.path()))?;
        }
    }
    Ok(())
}

/// Returns the disk usage of the readable part of a tree, in bytes.
pub(super) fn size(dir: &Path) -> u64 {
    let (mut todo, mut bytes) = (vec![dir.to_path_buf()], 0);
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            bytes += found.blocks() * 512;
            if found.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    bytes
}

/// Removes a tree that was written from inside a sandbox, where even the owner may lack permissions.
pub(super) fn remove(dir: &Path) -> Result<(), SessionError> {
    match fs::remove_dir_all(dir) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            match unlock(dir).and_then(|()| fs::remove_dir_all(dir)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(cannot("remove", dir)(error))
                }
                _ => Ok(()),
            }
        }
        Err(error) => Err(cannot("remove", dir)(error)),
    }
}

/// Gives the owner access to every directory of a tree, from the top down. Removes empty ones directly, because another
/// user cannot open what root's overlay leaves in its work directory.
fn unlock(dir: &Path) -> io::Result<()> {
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        if fs::remove_dir(&dir).is_ok() {
            continue;
        }
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    Ok(())
}
