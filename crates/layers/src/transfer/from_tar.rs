//! Tar archive as the source. Entries are passed on without unpacking. A path that leads outside the tree is refused.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tar::{Archive, Entry, EntryType};

use super::{Item, Sink, TransferError, Watch};
use crate::RelPath;
use crate::database::Inode;

/// Sends the entries of an archive.
pub fn from_tar(
    archive: impl Read,
    sink: &mut dyn Sink,
    watch: &mut Watch<'_>,
) -> Result<(), TransferError> {
    let mut archive = Archive::new(archive);
    let mut known = Known::default();
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = PathBuf::from(OsString::from_vec(entry.path_bytes().into_owned()));
        let inode = inode(&entry)?;
        let Some(path) = inside(&path)? else {
            sink.root(&inode)?;
            continue;
        };
        if let Some(item) = known.item(&mut entry, path, inode)? {
            let content = (item.inode.is_file() && entry.header().entry_type() != EntryType::Link)
                .then(|| Box::new(&mut entry) as Box<dyn Read>);
            watch.hand(sink, &item, content)?;
        }
    }
    Ok(())
}

/// Files that later entries may link to.
#[derive(Default)]
struct Known {
    files: BTreeMap<PathBuf, (Inode, u64)>,
}

impl Known {
    fn item<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        path: RelPath,
        mut inode: Inode,
    ) -> Result<Option<Item>, TransferError> {
        let kind = entry.header().entry_type();
        let link = entry.link_name_bytes().map(|link| OsString::from_vec(link.into_owned()));
        let mut same = None;
        let mut target = None;
        match kind {
            EntryType::Link => {
                let to = link.as_deref().map(Path::new).map(inside).transpose()?.flatten();
                let first = to.as_ref().and_then(|to| self.files.get(to.as_path()));
                let (first, number) = first.ok_or_else(|| TransferError::Refused {
                    path: path.as_path().to_owned(),
                    what: "it is a hard link to a file that is not in the archive",
                })?;
                (inode, same) = (*first, Some(*number));
            }
            EntryType::Symlink => target = link,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let number = self.files.len() as u64;
                // A later entry may link to it.
                self.files.insert(path.as_path().to_owned(), (inode, number));
                same = Some(number);
            }
            _ => {}
        }
        Ok(Some(Item { path, inode, target, same, xattrs: attributes(entry)? }))
    }
}

/// Returns the path if it stays in the tree; `None` for the root.
fn inside(path: &Path) -> Result<Option<RelPath>, TransferError> {
    let plain: PathBuf =
        path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect();
    if plain.as_os_str().is_empty() {
        return Ok(None);
    }
    RelPath::new(&plain).map(Some).ok_or_else(|| TransferError::Refused {
        path: path.to_owned(),
        what: "it leads out of the tree",
    })
}

fn inode<R: Read>(entry: &Entry<'_, R>) -> Result<Inode, TransferError> {
    let header = entry.header();
    let kind = match header.entry_type() {
        EntryType::Directory => 0o040_000,
        EntryType::Symlink => 0o120_000,
        EntryType::Fifo => 0o010_000,
        EntryType::Char => 0o020_000,
        EntryType::Block => 0o060_000,
        _ => 0o100_000,
    };
    let small = |number: u64| {
        u32::try_from(number).map_err(|_| TransferError::Archive("invalid owner id".into()))
    };
    let (major, minor) =
        (header.device_major().ok().flatten(), header.device_minor().ok().flatten());
    let device = rustix::fs::makedev(major.unwrap_or(0), minor.unwrap_or(0));
    let file = kind == 0o100_000;
    Ok(Inode {
        mode: kind | header.mode().map_err(damaged)? & 0o7777,
        links: 1,
        uid: small(header.uid().map_err(damaged)?)?,
        gid: small(header.gid().map_err(damaged)?)?,
        size: if file { entry.size() } else { 0 },
        mtime: (i64::try_from(header.mtime().map_err(damaged)?).unwrap_or(0), 0),
        device: if matches!(kind, 0o020_000 | 0o060_000) { device } else { 0 },
    })
}

fn attributes<R: Read>(
    entry: &mut Entry<'_, R>,
) -> Result<Vec<(OsString, Vec<u8>)>, TransferError> {
    let mut found = Vec::new();
    if let Some(extensions) = entry.pax_extensions().map_err(damaged)? {
        for extension in extensions {
            let extension = extension.map_err(damaged)?;
            if let Some(name) = extension.key_bytes().strip_prefix(b"SCHILY.xattr.") {
                found.push((OsStr::from_bytes(name).to_owned(), extension.value_bytes().to_vec()));
            }
        }
    }
    Ok(found)
}

#[allow(clippy::needless_pass_by_value, reason = "this is what `map_err` hands over")]
fn damaged(error: std::io::Error) -> TransferError {
    TransferError::Archive(error.to_string())
}
