//! The kernel's list of mounts.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The type of our mounts, in that list.
pub const KIND: &str = "fuse.agentfs";

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its number, which no other mount has while it is there.
    pub id: u64,
    /// The device number of the file system, as `major:minor`.
    pub device: String,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The type of the file system.
    pub kind: String,
    /// What is mounted: for ours, the database.
    pub source: PathBuf,
}

impl Row {
    /// Returns true when this mount is still there: somebody may have taken it away, and mounted something else, which may even
    /// have got its number.
    pub fn is_there(&self) -> bool {
        at(&self.mountpoint).is_ok_and(|now| now.as_ref() == Some(self))
    }
}

/// All mounts that this process sees.
pub fn all() -> io::Result<Vec<Row>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(row).collect())
}

/// The mount on top at a path.
pub fn at(path: &Path) -> io::Result<Option<Row>> {
    Ok(all()?.into_iter().rfind(|row| row.mountpoint == path))
}

/// `36 35 98:0 /root /mountpoint rw,noatime master:1 - type source options`; see proc(5).
fn row(line: &[u8]) -> Option<Row> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let rest = words.iter().position(|word| *word == b"-")?;
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    Some(Row {
        id: std::str::from_utf8(words.first()?).ok()?.parse().ok()?,
        device: text(words.get(2)?),
        mountpoint: plain(words.get(4)?),
        kind: text(words.get(rest + 1)?),
        source: plain(words.get(rest + 2)?),
    })
}

/// Blanks, line ends and backslashes are written as three octal digits.
fn plain(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let number =
            digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(number.unwrap_or(*first));
        rest = if number.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_when_names_hold_blanks() {
        let line = br"541 29 0:57 / /mnt/a\040b rw,nosuid,nodev shared:9 - fuse.agentfs /home/u/x\134y.db rw,user_id=0";
        let found = row(line).unwrap();
        assert_eq!(found.id, 541);
        assert_eq!(found.device, "0:57");
        assert_eq!(found.mountpoint, Path::new("/mnt/a b"));
        assert_eq!(
            (found.kind.as_str(), found.source.as_path()),
            (KIND, Path::new(r"/home/u/x\y.db"))
        );
        assert_eq!(row(b""), None);
        assert_eq!(row(b"1 2 0:1 / /x rw"), None);
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(at(Path::new("/")).unwrap().is_some());
    }
}
