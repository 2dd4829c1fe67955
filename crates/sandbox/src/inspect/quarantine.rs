//! Quarantine: moves findings out of the tree, into the user's state directory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use sandbox_linux::tree::{self, Dir, Kind, Mounts};

/// Maximum size of a copy to another filesystem. A larger finding is renamed in place to a harmless name.
const MAX_BYTES: u64 = 32 << 20;
const MAX_ENTRIES: usize = 2_000;

/// Directory for the findings of one run: `quarantine/ID/N/NAME`.
#[derive(Debug)]
pub(super) struct Quarantine {
    dir: PathBuf,
    id: String,
    count: usize,
}

impl Quarantine {
    pub(super) fn new(state: &Path, id: &str) -> Self {
        let dir = state.join("quarantine").join(id);
        Self { dir, id: id.to_owned(), count: 0 }
    }

    /// Moves `path` aside and returns its new path.
    pub(super) fn aside(&mut self, path: &Path) -> io::Result<PathBuf> {
        let (from, name) = tree::parent(path)?;
        let kind = from.stat(name)?.kind;
        match self.slot().and_then(|(slot, at)| carry(&from, name, kind, &slot).map(|()| at)) {
            Ok(at) => Ok(at.join(name)),
            // It is on another filesystem and too large to copy, or the target is full. Git ignores the new name.
            Err(_) => self.rename_in_place(&from, name, path),
        }
    }

    fn slot(&mut self) -> io::Result<(Dir, PathBuf)> {
        loop {
            self.count += 1;
            let at = self.dir.join(self.count.to_string());
            super::record::private_dir(&self.dir)?;
            match std::fs::create_dir(&at) {
                Ok(()) => return Ok((super::record::open_real(&at)?, at)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn rename_in_place(&self, from: &Dir, name: &OsStr, path: &Path) -> io::Result<PathBuf> {
        let mut harmless = OsString::from(format!("set-aside-{}-{}-", self.id, self.count));
        let keep = name.as_encoded_bytes().len().min(255 - harmless.len());
        harmless.push(
            String::from_utf8_lossy(&name.as_encoded_bytes()[..keep]).replace('\u{fffd}', "_"),
        );
        from.rename(name, from, &harmless)?;
        Ok(path.with_file_name(harmless))
    }
}

fn carry(from: &Dir, name: &OsStr, kind: Kind, to: &Dir) -> io::Result<()> {
    match from.rename(name, to, name) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let (mut bytes, mut entries) = (MAX_BYTES, MAX_ENTRIES);
            copy(from, name, kind, to, &mut bytes, &mut entries)?;
            remove(from, name, kind)
        }
        done => done,
    }
}

fn copy(
    from: &Dir,
    name: &OsStr,
    kind: Kind,
    to: &Dir,
    bytes: &mut u64,
    entries: &mut usize,
) -> io::Result<()> {
    *entries = entries.checked_sub(1).ok_or(io::ErrorKind::FileTooLarge)?;
    match kind {
        Kind::File => {
            let (content, stat) = from.read_with_stat(name, *bytes)?;
            *bytes -= content.len() as u64;
            to.write_new(name, &content, stat.mode & 0o777)
        }
        Kind::Link => to.link(name, &from.read_link(name)?),
        Kind::Dir => {
            let inner = from.dir(Path::new(name), Mounts::Stay)?;
            let target = to.make_dir(name, 0o700)?;
            let each = inner.entries()?;
            each.iter()
                .try_for_each(|(name, kind)| copy(&inner, name, *kind, &target, bytes, entries))
        }
        // A pipe or a socket has no content to keep.
        Kind::Special => Ok(()),
    }
}

fn remove(from: &Dir, name: &OsStr, kind: Kind) -> io::Result<()> {
    if kind == Kind::Dir {
        let inner = from.dir(Path::new(name), Mounts::Stay)?;
        for (name, kind) in inner.entries()? {
            remove(&inner, &name, kind)?;
        }
    }
    from.remove(name, kind)
}
