//! Mount table of the kernel.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// File system type of our mounts in the table.
pub const KIND: &str = "fuse.agentfs";

/// Mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Mount id, unique among the present mounts.
    pub id: u64,
    /// Device number of the file system, as `major:minor`.
    pub device: String,
    /// Mountpoint.
    pub mountpoint: PathBuf,
    /// File system type.
    pub kind: String,
    /// Source. For our mounts, the database.
    pub source: PathBuf,
}

impl Row {
    /// Returns true if this mount still exists. Another process may have replaced it by a mount with the same id.
    pub fn is_there(&self) -> bool {
        at(&self.mountpoint).is_ok_and(|now| now.as_ref() == Some(self))
    }
}

/// Returns all mounts that this process sees.
pub fn all() -> io::Result<Vec<Row>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(row).collect())
}

/// Returns the topmost mount at a path.
pub fn at(path: &Path) -> io::Result<Option<Row>> {
    Ok(all()?.into_iter().rfind(|row| row.mountpoint == path))
}

/// Parses `36 35 98:0 /root /mountpoint rw,noatime master:1 - type source options`: `proc_pid_mountinfo(5)`.
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

/// Decodes blanks, line ends and backslashes from three octal digits.
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
