//! Tar archive as the destination.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

use super::{Item, SET_ID, Sink, TransferError};
use crate::database::Inode;

/// Writer of an archive for GNU tar and bsdtar.
pub struct ToTar<W: Write> {
    builder: Builder<W>,
    path: PathBuf,
    first: HashMap<u64, PathBuf>,
}

impl ToTar<BufWriter<File>> {
    /// Creates an archive. Fails if the file already exists.
    pub fn create(path: &Path) -> Result<Self, TransferError> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => TransferError::Exists(path.to_owned()),
            _ => TransferError::writing(path)(source),
        })?;
        Ok(Self::new(BufWriter::with_capacity(1 << 20, file), path))
    }
}

impl<W: Write> ToTar<W> {
    /// Starts an archive that is written to `writer`; messages name it by `path`.
    pub fn new(writer: W, path: &Path) -> Self {
        Self { builder: Builder::new(writer), path: path.to_owned(), first: HashMap::new() }
    }

    fn attributes(&mut self, item: &Item) -> io::Result<()> {
        let name = |name: &OsString| format!("SCHILY.xattr.{}", name.to_string_lossy());
        let user =
            item.xattrs.iter().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"user."));
        let pairs: Vec<_> = user.map(|(key, value)| (name(key), value.as_slice())).collect();
        if pairs.is_empty() {
            return Ok(());
        }
        self.builder.append_pax_extensions(pairs.iter().map(|(key, value)| (key.as_str(), *value)))
    }
}

impl<W: Write> Sink for ToTar<W> {
    fn root(&mut self, inode: &Inode) -> Result<(), TransferError> {
        let mut header = header(inode, EntryType::Directory);
        self.builder
            .append_data(&mut header, "./", io::empty())
            .map_err(TransferError::writing(&self.path))
    }

    fn put(&mut self, item: &Item, content: Option<&mut dyn Read>) -> Result<(), TransferError> {
        let place = self.path.clone();
        let done = |result: io::Result<()>| result.map_err(TransferError::writing(&place));
        let at = item.path.as_path();
        if let Some(first) = item.same.and_then(|same| self.first.get(&same)).cloned() {
            let mut header = header(&item.inode, EntryType::Link);
            header.set_size(0);
            return done(self.builder.append_link(&mut header, at, first));
        }
        if let Some(same) = item.same {
            self.first.insert(same, at.to_owned());
        }
        done(self.attributes(item))?;
        match (content, &item.target) {
            (Some(content), _) => {
                let mut header = header(&item.inode, EntryType::Regular);
                header.set_size(item.inode.size);
                done(self.builder.append_data(&mut header, at, content))
            }
            (None, Some(target)) => {
                let mut header = header(&item.inode, EntryType::Symlink);
                done(self.builder.append_link(&mut header, at, target))
            }
            (None, None) if item.inode.is_dir() => {
                let mut header = header(&item.inode, EntryType::Directory);
                done(self.builder.append_data(&mut header, at, io::empty()))
            }
            (None, None) => Err(TransferError::refused(item, "it is a pipe, a socket or a device")),
        }
    }

    fn finish(self: Box<Self>) -> Result<(), TransferError> {
        let path = self.path;
        let mut writer = self.builder.into_inner().map_err(TransferError::writing(&path))?;
        writer.flush().map_err(TransferError::writing(&path))
    }
}

fn header(inode: &Inode, kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(inode.mode & 0o7777 & !SET_ID);
    header.set_uid(inode.uid.into());
    header.set_gid(inode.gid.into());
    header.set_mtime(u64::try_from(inode.mtime.0).unwrap_or(0));
    header.set_size(0);
    header
}
