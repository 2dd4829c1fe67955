//! Loose files: large contents kept beside a mounted database, for I/O at the speed of the
//! underlying file system. Unmounting moves them into the database.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::statement::Statement;
use super::{Store, StoreError, beside};

/// Longest holes that are stored as zeros, in addition to the length of the file's content.
const FILLED: u64 = 64 << 20;

/// The directory of loose files.
#[derive(Debug)]
pub(super) struct Loose {
    path: PathBuf,
    dir: Option<OwnedFd>,
    files: HashSet<u64>,
    /// Files to delete once the deletion of their row is on disk. After power loss the row may be
    /// back and needs its file.
    doomed: Vec<u64>,
    /// True when a file was created since the directory was last synced.
    new: bool,
    /// Files that replace content of the database or of the base. They must be on disk before a log
    /// refers to them.
    unsynced: Vec<(u64, Arc<File>)>,
}

impl Loose {
    /// Returns the directory beside a database. It is created on first use.
    pub(super) fn beside(database: &Path) -> Self {
        let path = beside(database, "-loose");
        Self {
            path,
            dir: None,
            files: HashSet::new(),
            doomed: Vec::new(),
            new: false,
            unsynced: Vec::new(),
        }
    }

    pub(super) fn has(&self, ino: u64) -> bool {
        self.files.contains(&ino)
    }

    pub(super) fn has_doomed(&self) -> bool {
        !self.doomed.is_empty()
    }

    pub(super) fn doom(&mut self, ino: u64) {
        self.files.remove(&ino);
        self.unsynced.retain(|(unsynced, _)| *unsynced != ino);
        self.doomed.push(ino);
    }

    pub(super) fn must_sync(&mut self, ino: u64, file: &Arc<File>) {
        self.new = true;
        self.unsynced.push((ino, Arc::clone(file)));
    }

    /// Syncs replacements before a log is written or committed.
    pub(super) fn sync_replacements(&mut self) -> io::Result<()> {
        if self.unsynced.is_empty() { Ok(()) } else { self.sync_new() }
    }

    pub(super) fn sync_new(&mut self) -> io::Result<()> {
        while let Some((_, file)) = self.unsynced.last() {
            file.sync_data()?;
            self.unsynced.pop();
        }
        if std::mem::take(&mut self.new)
            && let Some(dir) = &self.dir
        {
            rustix::fs::fsync(rustix::fs::openat(
                dir,
                ".",
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )?)?;
            File::open(super::parent(&self.path))?.sync_all()?;
        }
        Ok(())
    }

    pub(super) fn dir(&mut self) -> io::Result<&OwnedFd> {
        if self.dir.is_none() {
            match rustix::fs::mkdir(&self.path, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            self.dir = Some(open_dir(&self.path)?);
        }
        self.dir.as_ref().ok_or_else(|| Errno::NOENT.into())
    }

    fn open(&mut self, ino: u64, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = self.dir()?;
        Ok(File::from(rustix::fs::openat(dir, ino.to_string(), flags, Mode::RUSR | Mode::WUSR)?))
    }

    /// Deletes files whose row is gone.
    pub(super) fn bury(&mut self) {
        let Some(dir) = &self.dir else { return };
        for ino in self.doomed.drain(..) {
            // The next open retries.
            let _ = rustix::fs::unlinkat(dir, ino.to_string(), AtFlags::empty());
        }
    }

    /// Deletes the directory with incomplete files. All others are in the database by now.
    pub(super) fn remove_dir(&mut self) {
        self.doomed = self.found().unwrap_or_default();
        self.bury();
        self.dir = None;
        let _ = rustix::fs::rmdir(&self.path);
    }

    /// Returns all files in the directory, with or without a row.
    pub(super) fn found(&mut self) -> io::Result<Vec<u64>> {
        match open_dir(&self.path) {
            Ok(dir) => self.dir = Some(dir),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        let entries = std::fs::read_dir(&self.path)?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        Ok(names.collect())
    }

    /// Registers files that have a row in the database.
    pub(super) fn adopt(&mut self, rows: impl IntoIterator<Item = u64>) {
        self.files.extend(rows);
    }
}

fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

impl Store {
    /// Returns true when an inode's content is a loose file.
    pub(crate) fn is_loose(&self, ino: u64) -> bool {
        self.loose.has(ino)
    }

    /// Opens a loose file.
    pub(crate) fn open_loose(&mut self, ino: u64) -> Result<File, StoreError> {
        Ok(self.loose.open(ino, OFlags::empty())?)
    }

    /// Creates an empty loose file. It takes effect with [`Self::loosen`].
    pub(crate) fn new_loose(&mut self, ino: u64) -> Result<File, StoreError> {
        self.loose.new = true;
        Ok(self.loose.open(ino, OFlags::CREATE | OFlags::TRUNC)?)
    }

    /// Makes the loose file the content. The chunks stay: dropping them costs time now, and most
    /// may still match when the file moves back into the database.
    pub(crate) fn loosen(&mut self, ino: u64) -> Result<(), StoreError> {
        self.journal.run(Statement::PutLoose, &[ino.into()])?;
        self.loose.doomed.retain(|doomed| *doomed != ino);
        self.loose.files.insert(ino);
        Ok(())
    }

    /// Requires a sync of a loose file that replaces other content before the next commit.
    pub(crate) fn must_sync(&mut self, ino: u64, file: &Arc<File>) {
        self.loose.must_sync(ino, file);
    }

    /// Returns the files that the next commit would sync.
    pub(crate) fn unsynced(&self) -> Vec<Arc<File>> {
        self.loose.unsynced.iter().map(|(_, file)| Arc::clone(file)).collect()
    }

    /// Copies the chunks of an inode into a new loose file.
    pub(crate) fn take_out(&mut self, ino: u64, size: u64) -> Result<Arc<File>, StoreError> {
        self.drop_copy(ino);
        let file = self.new_loose(ino)?;
        file.set_len(size)?;
        let mut buffer = vec![0; self.chunk_size.max(1 << 20)];
        let mut offset = 0;
        while let Some(start) = self.next_data(ino, offset)?.filter(|start| *start < size) {
            let length = (size - start).min(buffer.len() as u64);
            let part = &mut buffer[..usize::try_from(length).unwrap_or(0)];
            self.read(ino, start, part)?;
            file.write_all_at(part, start)?;
            offset = start + length;
        }
        self.loosen(ino)?;
        let file = Arc::new(file);
        self.loose.must_sync(ino, &file);
        Ok(file)
    }

    /// Returns the inode numbers of all loose files.
    pub(crate) fn all_loose(&self) -> Vec<u64> {
        self.loose.files.iter().copied().collect()
    }

    /// Returns the length of a loose file and the disk space it needs in the database.
    pub(super) fn loose_size(&mut self, ino: u64) -> Result<(u64, u64), StoreError> {
        let sizes = self.loose.open(ino, OFlags::empty()).and_then(|file| {
            let meta = file.metadata()?;
            let (size, taken) = (meta.len(), meta.blocks() * 512);
            Ok((size, if is_sparse(&file, size)? { taken } else { taken.max(size) }))
        });
        match sizes {
            Ok(sizes) => Ok(sizes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((0, 0)),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves a loose file into the database and returns its length.
    pub(crate) fn take_in(&mut self, ino: u64) -> Result<u64, StoreError> {
        let file = match self.loose.open(ino, OFlags::empty()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.forget_loose(ino)?;
                self.journal.run(Statement::DropChunks, &[ino.into(), 0_u64.into()])?;
                return Ok(0);
            }
            Err(error) => return Err(error.into()),
        };
        let size = file.metadata()?.len();
        self.copy_in(ino, &file, size)?;
        self.forget_loose(ino)?;
        Ok(size)
    }

    /// Unregisters a loose file and schedules its deletion.
    pub(super) fn forget_loose(&mut self, ino: u64) -> Result<(), StoreError> {
        self.journal.run(Statement::DropLoose, &[ino.into()])?;
        self.loose.doom(ino);
        Ok(())
    }

    /// Copies a file's content into chunks and keeps chunks that match. Holes become zeros, because
    /// AgentFS's SDKs concatenate the chunks of a file without checking their numbers. Only very
    /// sparse files keep their holes.
    pub(crate) fn copy_in(&mut self, ino: u64, file: &File, size: u64) -> Result<(), StoreError> {
        let chunk_size = self.chunk_size as u64;
        let sparse = is_sparse(file, size)?;
        let mut buffer = vec![0; self.chunk_size];
        let mut offset = 0;
        while offset < size {
            let data = match next_data(file, offset)? {
                Some(data) if sparse => data - data % chunk_size,
                None if sparse => break,
                _ => offset,
            };
            self.drop_chunks(ino, offset / chunk_size, data / chunk_size)?;
            let length = usize::try_from((size - data).min(chunk_size)).unwrap_or(0);
            let part = &mut buffer[..length];
            file.read_exact_at(part, data)?;
            self.put_changed(ino, data / chunk_size, part)?;
            offset = data + chunk_size;
            // Commit in between to keep the transaction small. The row in `sandbox_loose` still
            // marks the loose file as the content.
            if self.journal.is_due(std::time::Duration::MAX) {
                self.commit()?;
                self.checkpoint(64 << 20)?;
            }
        }
        self.journal.run(Statement::DropChunks, &[ino.into(), (offset / chunk_size).into()])
    }

    fn put_changed(&mut self, ino: u64, index: u64, part: &[u8]) -> Result<(), StoreError> {
        if self.chunk(ino, index)?.is_some_and(|chunk| chunk == part) {
            return Ok(());
        }
        self.put_chunk(ino, index, part)
    }
}

/// Returns true when a file with these lengths of holes and content stays sparse.
pub(super) fn stays_sparse(holes: u64, content: u64) -> bool {
    holes > FILLED.saturating_add(content)
}

/// Returns true when a file is so sparse that the database keeps its holes.
fn is_sparse(file: &File, size: u64) -> io::Result<bool> {
    let (mut content, mut offset) = (0, 0);
    // Stop when the rest can no longer tip the balance, even if all of it is a hole.
    while stays_sparse(size - offset, content) {
        let Some(data) = next_data(file, offset)?.filter(|data| *data < size) else { break };
        let hole = match rustix::fs::seek(file, SeekFrom::Hole(data)) {
            Ok(hole) => hole.clamp(data + 1, size),
            Err(_) => size,
        };
        content += hole - data;
        offset = hole;
    }
    Ok(stays_sparse(size - content, content))
}

/// Returns the next offset with content, or `None` if only a hole follows.
fn next_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(data) => Ok(Some(data)),
        Err(Errno::NXIO) => Ok(None),
        // Without SEEK_DATA support (lseek(2)), treat everything as content.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(offset)),
        Err(error) => Err(error.into()),
    }
}
