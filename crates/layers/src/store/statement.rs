//! Every change of a database, as one of a fixed set of statements. A change is therefore a value
//! that can be run, kept, written to the redo log and replayed.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};

/// Parameter of a statement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Blob(&'a [u8]),
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Int(number.cast_signed())
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Int(i64::from(number))
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $number:literal $sql:literal)*) => {
        /// Statement. Its number is stored in redo logs: never give an old number a new meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Statement { $($(#[$doc])* $name = $number),* }

        impl Statement {
            /// Returns the SQL text.
            pub(crate) fn sql(self) -> &'static str {
                match self { $(Self::$name => $sql),* }
            }

            /// Returns the statement with a number from a redo log.
            pub(crate) fn numbered(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }
        }
    };
}

statements! {
    PutInode = 1 "INSERT INTO fs_inode (ino, mode, nlink, uid, gid, size, atime, mtime, ctime, rdev,
        atime_nsec, mtime_nsec, ctime_nsec) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)
        ON CONFLICT (ino) DO UPDATE SET mode=?2, nlink=?3, uid=?4, gid=?5, size=?6, atime=?7, mtime=?8,
        ctime=?9, rdev=?10, atime_nsec=?11, mtime_nsec=?12, ctime_nsec=?13"
    DropInode = 2 "DELETE FROM fs_inode WHERE ino=?1"
    PutName = 3 "INSERT OR REPLACE INTO fs_dentry (parent_ino, name, ino) VALUES (?1,?2,?3)"
    DropName = 4 "DELETE FROM fs_dentry WHERE parent_ino=?1 AND name=?2"
    PutRawName = 5 "INSERT OR REPLACE INTO sandbox_dentry (parent_ino, name, ino) VALUES (?1,?2,?3)"
    DropRawName = 6 "DELETE FROM sandbox_dentry WHERE parent_ino=?1 AND name=?2"
    PutChunk = 7 "INSERT OR REPLACE INTO fs_data (ino, chunk_index, data) VALUES (?1,?2,?3)"
    DropChunks = 8 "DELETE FROM fs_data WHERE ino=?1 AND chunk_index>=?2"
    PutSymlink = 9 "INSERT OR REPLACE INTO fs_symlink (ino, target) VALUES (?1,?2)"
    PutRawSymlink = 10 "INSERT OR REPLACE INTO sandbox_symlink (ino, target) VALUES (?1,?2)"
    DropSymlink = 11 "DELETE FROM fs_symlink WHERE ino=?1"
    DropRawSymlink = 12 "DELETE FROM sandbox_symlink WHERE ino=?1"
    PutWhiteout = 13 "INSERT OR REPLACE INTO fs_whiteout (path, created_at) VALUES (?1,?2)"
    /// For a table created by AgentFS's specification instead of its code.
    PutSpecWhiteout = 14 "INSERT OR REPLACE INTO fs_whiteout (path, created_at, parent_path) VALUES (?1,?2,?3)"
    PutRawWhiteout = 15 "INSERT OR REPLACE INTO sandbox_whiteout (path) VALUES (?1)"
    DropWhiteout = 16 "DELETE FROM fs_whiteout WHERE path=?1"
    DropRawWhiteout = 17 "DELETE FROM sandbox_whiteout WHERE path=?1"
    PutXattr = 18 "INSERT OR REPLACE INTO sandbox_xattr (ino, name, value) VALUES (?1,?2,?3)"
    DropXattr = 19 "DELETE FROM sandbox_xattr WHERE ino=?1 AND name=?2"
    DropXattrs = 20 "DELETE FROM sandbox_xattr WHERE ino=?1"
    PutDir = 21 "INSERT OR REPLACE INTO sandbox_dir (ino, base) VALUES (?1,?2)"
    DropDir = 22 "DELETE FROM sandbox_dir WHERE ino=?1"
    PutShown = 23 "INSERT OR REPLACE INTO fs_origin (delta_ino, base_ino) VALUES (?1,?2)"
    DropShown = 24 "DELETE FROM fs_origin WHERE delta_ino=?1"
    PutOrigin = 25 "INSERT OR REPLACE INTO sandbox_origin (base_ino, delta_ino, size, mtime, mtime_nsec,
        ctime, ctime_nsec) VALUES (?1,?2,?3,?4,?5,?6,?7)"
    DropOrigin = 26 "DELETE FROM sandbox_origin WHERE base_ino=?1"
    PutLoose = 27 "INSERT OR REPLACE INTO sandbox_loose (ino) VALUES (?1)"
    DropLoose = 28 "DELETE FROM sandbox_loose WHERE ino=?1"
    PutOrphan = 29 "INSERT OR REPLACE INTO sandbox_orphan (ino) VALUES (?1)"
    DropOrphan = 30 "DELETE FROM sandbox_orphan WHERE ino=?1"
    /// Identifies the redo log that belongs to this state.
    PutEpoch = 31 "INSERT OR REPLACE INTO fs_config (key, value) VALUES ('sandbox_epoch', ?1)"
    /// Identifies the pieces of a redo log that are committed.
    PutPart = 41 "INSERT OR REPLACE INTO fs_config (key, value) VALUES ('sandbox_part', ?1)"
    DropSomeChunks = 40 "DELETE FROM fs_data WHERE ino=?1 AND chunk_index>=?2 AND chunk_index<?3"
    PutUnlinked = 32 "INSERT OR REPLACE INTO sandbox_unlinked (base_ino, names) VALUES (?1,?2)"
}

/// Appends a statement with its parameters to a log.
pub(crate) fn encode(log: &mut Vec<u8>, statement: Statement, values: &[Value<'_>]) {
    log.push(statement as u8);
    log.push(u8::try_from(values.len()).unwrap_or(u8::MAX));
    for value in values {
        match *value {
            Value::Null => log.push(0),
            Value::Int(number) => {
                log.push(1);
                log.extend_from_slice(&number.to_le_bytes());
            }
            Value::Text(text) => bytes(log, 2, text.as_bytes()),
            Value::Blob(blob) => bytes(log, 3, blob),
        }
    }
}

fn bytes(log: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    log.push(kind);
    log.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    log.extend_from_slice(bytes);
}

/// Removes the next statement from a log; `None` at its end or at invalid bytes.
pub(crate) fn decode<'a>(log: &mut &'a [u8]) -> Option<(Statement, Vec<Value<'a>>)> {
    let [statement, count] = *take(log, 2)? else { return None };
    let statement = Statement::numbered(statement)?;
    let values = (0..count).map(|_| value(log)).collect::<Option<_>>()?;
    Some((statement, values))
}

fn value<'a>(log: &mut &'a [u8]) -> Option<Value<'a>> {
    Some(match take(log, 1)? {
        [0] => Value::Null,
        [1] => Value::Int(i64::from_le_bytes(take(log, 8)?.try_into().ok()?)),
        [2] => Value::Text(std::str::from_utf8(sized(log)?).ok()?),
        [3] => Value::Blob(sized(log)?),
        _ => return None,
    })
}

fn sized<'a>(log: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(take(log, 4)?.try_into().ok()?);
    take(log, length as usize)
}

fn take<'a>(log: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, rest) = log.split_at_checked(count)?;
    *log = rest;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_decodes_to_the_encoded_statements() {
        let mut log = Vec::new();
        let values = [Value::Int(-3), Value::Text("ä"), Value::Blob(&[0, 255]), Value::Null];
        encode(&mut log, Statement::PutChunk, &values);
        encode(&mut log, Statement::DropInode, &[Value::Int(7)]);
        let mut rest = log.as_slice();
        assert_eq!(decode(&mut rest), Some((Statement::PutChunk, values.to_vec())));
        assert_eq!(decode(&mut rest), Some((Statement::DropInode, vec![Value::Int(7)])));
        assert_eq!(decode(&mut rest), None);
    }

    #[test]
    fn a_truncated_log_decodes_to_nothing() {
        let mut log = Vec::new();
        encode(&mut log, Statement::PutName, &[Value::Int(1), Value::Text("name"), Value::Int(2)]);
        for cut in 0..log.len() {
            assert_eq!(decode(&mut &log[..cut]), None, "cut at {cut}");
        }
    }
}
