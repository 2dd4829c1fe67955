//! Inodes: file attributes, without names and content.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, Row};

use super::statement::{Statement, Value, encode};
use super::{Store, StoreError};

/// Flag in the inode number of a file that came from the base, also after its copy-up.
pub(crate) const BASE: u64 = 1 << 62;
/// Flag beside [`BASE`] when the base is a database. Its own files keep their numbers, because a
/// layer continues the numbering of the layer below it.
pub(crate) const LOWER: u64 = 1 << 60;

/// Point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time {
    /// Seconds since 1970.
    pub sec: i64,
    /// Nanoseconds of that second.
    pub nsec: u32,
}

impl Time {
    /// Returns the current time.
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Self { sec: now.tv_sec, nsec: u32::try_from(now.tv_nsec).unwrap_or(0) }
    }
}

/// Row of `fs_inode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inode {
    /// Type and permission bits.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Last read.
    pub atime: Time,
    /// Time of the last write.
    pub mtime: Time,
    /// Time of the last inode change.
    pub ctime: Time,
    /// Device number, for device files.
    pub rdev: u64,
}

/// Type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    Char,
    /// A block device.
    Block,
}

impl Kind {
    /// Returns the type in a mode, or `None` if its type bits are unknown.
    pub fn of(mode: u32) -> Option<Self> {
        Some(match mode & libc::S_IFMT {
            libc::S_IFREG => Self::File,
            libc::S_IFDIR => Self::Dir,
            libc::S_IFLNK => Self::Symlink,
            libc::S_IFIFO => Self::Fifo,
            libc::S_IFSOCK => Self::Socket,
            libc::S_IFCHR => Self::Char,
            libc::S_IFBLK => Self::Block,
            _ => return None,
        })
    }
}

impl Inode {
    /// Returns the type; an unknown type reads as a regular file.
    pub fn kind(&self) -> Kind {
        Kind::of(self.mode).unwrap_or(Kind::File)
    }

    /// Returns true when it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == Kind::Dir
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let number = |column: usize| row.get::<_, i64>(column);
        let small =
            |column: usize| number(column).map(|value| u32::try_from(value).unwrap_or(u32::MAX));
        let time = |sec: usize, nsec: usize| {
            Ok::<_, rusqlite::Error>(Time {
                sec: number(sec)?,
                nsec: small(nsec)?.min(999_999_999),
            })
        };
        Ok(Self {
            mode: small(0)?,
            nlink: small(1)?,
            uid: small(2)?,
            gid: small(3)?,
            size: u64::try_from(number(4)?).unwrap_or(0),
            atime: time(5, 9)?,
            mtime: time(6, 10)?,
            ctime: time(7, 11)?,
            rdev: number(8)?.cast_unsigned(),
        })
    }
}

impl Store {
    /// Reads an inode.
    pub(crate) fn inode(&self, ino: u64) -> Result<Option<Inode>, StoreError> {
        let mut query = self.journal.conn.prepare_cached(
            "SELECT mode, nlink, uid, gid, size, atime, mtime, ctime, rdev, atime_nsec, mtime_nsec,
             ctime_nsec FROM fs_inode WHERE ino=?1",
        )?;
        Ok(query.query_row([ino.cast_signed()], Inode::from_row).optional()?)
    }

    /// Writes an inode.
    pub(crate) fn put_inode(&mut self, ino: u64, inode: &Inode) -> Result<(), StoreError> {
        self.journal.run(Statement::PutInode, &values(ino, inode))
    }

    /// Deletes an inode with all its rows. `shown` is the number that programs saw.
    pub(crate) fn drop_inode(
        &mut self,
        ino: u64,
        shown: u64,
        inode: &Inode,
    ) -> Result<(), StoreError> {
        let ino_value = [Value::from(ino)];
        self.drop_copy(ino);
        match inode.kind() {
            Kind::File => {
                if self.loose.has(ino) {
                    self.forget_loose(ino)?;
                }
                self.journal.run(Statement::DropChunks, &[ino.into(), Value::Int(0)])?;
            }
            Kind::Symlink => {
                self.journal.run(Statement::DropSymlink, &ino_value)?;
                self.journal.run(Statement::DropRawSymlink, &ino_value)?;
            }
            Kind::Dir => self.journal.run(Statement::DropDir, &ino_value)?,
            _ => {}
        }
        if shown & BASE != 0 || self.any.origins {
            self.journal.run(Statement::DropShown, &ino_value)?;
            self.journal.run(Statement::DropOrigin, &[origin_key(shown).into()])?;
        }
        if self.any.xattrs {
            self.journal.run(Statement::DropXattrs, &ino_value)?;
        }
        self.journal.run(Statement::DropInode, &ino_value)
    }

    /// Returns the inode number that programs see: its own, or the one it had in the base.
    pub(crate) fn shown(&self, ino: u64) -> Result<u64, StoreError> {
        if !self.any.origins {
            return Ok(ino);
        }
        let mut query = self
            .journal
            .conn
            .prepare_cached("SELECT base_ino FROM fs_origin WHERE delta_ino=?1")?;
        let origin: Option<i64> =
            query.query_row([ino.cast_signed()], |row| row.get(0)).optional()?;
        Ok(match origin.map(i64::cast_unsigned) {
            // AgentFS also stores numbers that are valid only within one of its processes.
            Some(number) if number & BASE == 0 => ino,
            Some(number) => shown_of(number),
            None => ino,
        })
    }

    /// Returns the inode that a file of the base was copied up to.
    pub(crate) fn copied(&self, shown: u64) -> Result<Option<u64>, StoreError> {
        if !self.any.origins {
            return Ok(None);
        }
        let mut query = self
            .journal
            .conn
            .prepare_cached("SELECT delta_ino FROM sandbox_origin WHERE base_ino=?1")?;
        let ino: Option<i64> =
            query.query_row([origin_key(shown).cast_signed()], |row| row.get(0)).optional()?;
        Ok(ino.map(i64::cast_unsigned))
    }

    /// Records the base inode of a copied-up file and its attributes at that time.
    pub(crate) fn put_origin(
        &mut self,
        ino: u64,
        shown: u64,
        base: &Inode,
    ) -> Result<(), StoreError> {
        let key = origin_key(shown);
        self.any.origins = true;
        self.journal.run(Statement::PutShown, &[ino.into(), key.into()])?;
        self.journal.run(
            Statement::PutOrigin,
            &[
                key.into(),
                ino.into(),
                base.size.into(),
                base.mtime.sec.into(),
                base.mtime.nsec.into(),
                base.ctime.sec.into(),
                base.ctime.nsec.into(),
            ],
        )
    }

    /// Returns how many names each file of the base has lost, keyed by the number that programs
    /// see.
    pub(crate) fn all_unlinked(&self) -> Result<HashMap<u64, u32>, StoreError> {
        let mut query =
            self.journal.conn.prepare("SELECT base_ino, names FROM sandbox_unlinked")?;
        let rows = query.query_map([], |row| {
            let names = u32::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
            Ok((shown_of(row.get::<_, i64>(0)?.cast_unsigned()), names))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Records how many names a file of the base has lost.
    pub(crate) fn put_unlinked(&mut self, shown: u64, names: u32) -> Result<(), StoreError> {
        self.journal.run(Statement::PutUnlinked, &[origin_key(shown).into(), names.into()])
    }

    /// Records that an inode without a name is still open.
    pub(crate) fn put_orphan(&mut self, ino: u64) -> Result<(), StoreError> {
        self.journal.run(Statement::PutOrphan, &[ino.into()])
    }

    /// Records that an orphan was deleted or has a name again.
    pub(crate) fn drop_orphan(&mut self, ino: u64) -> Result<(), StoreError> {
        self.journal.run(Statement::DropOrphan, &[ino.into()])
    }
}

/// Appends the statements that write an inode to a log. An inode without a name is also an orphan.
pub(super) fn log(log: &mut Vec<u8>, ino: u64, inode: &Inode) {
    encode(log, Statement::PutInode, &values(ino, inode));
    if inode.nlink == 0 {
        encode(log, Statement::PutOrphan, &[ino.into()]);
    }
}

/// Returns the values of a row of `fs_inode`.
fn values(ino: u64, inode: &Inode) -> [Value<'static>; 13] {
    let Inode { mode, nlink, uid, gid, size, atime, mtime, ctime, rdev } = *inode;
    [
        ino.into(),
        mode.into(),
        nlink.into(),
        uid.into(),
        gid.into(),
        size.into(),
        atime.sec.into(),
        mtime.sec.into(),
        ctime.sec.into(),
        rdev.into(),
        atime.nsec.into(),
        mtime.nsec.into(),
        ctime.nsec.into(),
    ]
}

/// Converts a base's inode number to its form in the tables.
fn origin_key(shown: u64) -> u64 {
    if shown & BASE == 0 { BASE | LOWER | shown } else { shown }
}

/// Converts a base's inode number from its form in the tables.
fn shown_of(key: u64) -> u64 {
    if key & LOWER == 0 { key } else { key & !(BASE | LOWER) }
}
