//! Git's index: its entries, without the data that only makes git faster.
//!
//! Format: <https://git-scm.com/docs/index-format>. Stat data, the cache tree and the other optional
//! extensions are left out, because two indexes with the same entries are equal for the user.

use std::collections::BTreeMap;

use sha1::{Digest, Sha1};

const ID: usize = 20;
const STAT: usize = 40;
const ASSUME_VALID: u16 = 0x8000;
const EXTENDED: u16 = 0x4000;
const STAGE: u16 = 0x3000;
const NAME: u16 = 0x0fff;
/// The flags of version 3 that git stores: skip-worktree and intent-to-add.
const STORED: u16 = 0x6000;
/// Extensions that change the meaning of the entries have a name in lower case.
const OPTIONAL: std::ops::RangeInclusive<u8> = b'A'..=b'Z';

/// Entry of an index, known by its path and stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// Type and permission bits.
    pub mode: u32,
    /// The object, in hexadecimal.
    pub id: String,
    /// Flags of version 3.
    extended: u16,
    /// The flag `assume-valid`: git assumes that the file is unchanged.
    assume_valid: bool,
    stat: [u8; STAT],
}

/// Entries of an index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// Entries by path and stage.
    pub entries: BTreeMap<(Vec<u8>, u8), IndexEntry>,
}

impl IndexEntry {
    /// Returns true for a submodule, which is a commit of another repository.
    pub fn is_submodule(&self) -> bool {
        self.mode & 0o170_000 == 0o160_000
    }

    fn is(&self, other: &Self) -> bool {
        (self.mode, &self.id, self.extended) == (other.mode, &other.id, other.extended)
    }
}

impl Index {
    /// Parses an index. Returns nothing if it is damaged, or depends on another file.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let body = bytes.get(..bytes.len().checked_sub(ID)?)?;
        let mut from = Reader { bytes: body, at: 0 };
        if from.take(4)? != b"DIRC" {
            return None;
        }
        let version = from.number()?;
        let count = from.number()?;
        if !(2..=4).contains(&version) {
            return None;
        }
        let (mut entries, mut last) = (BTreeMap::new(), Vec::new());
        for _ in 0..count {
            let (key, entry) = from.entry(version, &last)?;
            last.clone_from(&key.0);
            entries.insert(key, entry);
        }
        while from.at < body.len() {
            let name = from.take(4)?;
            if !OPTIONAL.contains(name.first()?) {
                return None;
            }
            let length = from.number()?;
            from.take(usize::try_from(length).ok()?)?;
        }
        Some(Self { entries })
    }

    /// Returns true while a merge is unfinished.
    pub(crate) fn is_unmerged(&self) -> bool {
        self.entries.keys().any(|(_, stage)| *stage != 0)
    }

    /// Returns the paths that differ, with this index's entry if it has one.
    pub fn differs<'i>(&'i self, other: &'i Self) -> Vec<(&'i [u8], Option<&'i IndexEntry>)> {
        let mut found = Vec::new();
        for (key, entry) in &self.entries {
            if !other.entries.get(key).is_some_and(|theirs| theirs.is(entry)) {
                found.push((key.0.as_slice(), Some(entry)));
            }
        }
        let gone = other.entries.keys().filter(|key| !self.entries.contains_key(*key));
        found.extend(gone.map(|key| (key.0.as_slice(), None)));
        found
    }

    /// Writes an index of version 2 or 3 with these entries. Stat data and the flag `assume-valid` come
    /// from `host` where it has the same entry: those of the session mean nothing there.
    pub fn write(&self, host: &Self) -> Vec<u8> {
        let extended = self.entries.values().any(|entry| entry.extended != 0);
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(if extended { 3_u32 } else { 2 }.to_be_bytes());
        bytes.extend(u32::try_from(self.entries.len()).unwrap_or(u32::MAX).to_be_bytes());
        for (key, entry) in &self.entries {
            let known = host.entries.get(key).filter(|known| known.is(entry));
            write_entry(key, entry, known, &mut bytes);
        }
        let sum = Sha1::digest(&bytes);
        bytes.extend(sum);
        bytes
    }
}

fn write_entry(
    (path, stage): &(Vec<u8>, u8),
    entry: &IndexEntry,
    known: Option<&IndexEntry>,
    bytes: &mut Vec<u8>,
) {
    let start = bytes.len();
    let mut times = known.map_or([0; STAT], |known| known.stat);
    times[24..28].copy_from_slice(&entry.mode.to_be_bytes());
    bytes.extend(times);
    for pair in entry.id.as_bytes().chunks(2) {
        let digits = std::str::from_utf8(pair).unwrap_or("0");
        bytes.push(u8::from_str_radix(digits, 16).unwrap_or(0));
    }
    let length = u16::try_from(path.len()).unwrap_or(NAME).min(NAME);
    let mut flags = length | (u16::from(*stage) << 12);
    if known.is_some_and(|known| known.assume_valid) {
        flags |= ASSUME_VALID;
    }
    if entry.extended == 0 {
        bytes.extend(flags.to_be_bytes());
    } else {
        bytes.extend((flags | EXTENDED).to_be_bytes());
        bytes.extend(entry.extended.to_be_bytes());
    }
    bytes.extend(path);
    let written = bytes.len() - start;
    bytes.resize(start + written + 8 - written % 8, 0);
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let part = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(part)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn entry(&mut self, version: u32, last: &[u8]) -> Option<((Vec<u8>, u8), IndexEntry)> {
        let begin = self.at;
        let stat: [u8; STAT] = self.take(STAT)?.try_into().ok()?;
        let mode = u32::from_be_bytes(stat[24..28].try_into().ok()?);
        let id = sandbox_linux::hex::encode(self.take(ID)?);
        let flags = self.short()?;
        let extended = if flags & EXTENDED == 0 { 0 } else { self.short()? & STORED };
        let path = if version == 4 { self.shared_name(last)? } else { self.name(begin)? };
        let stage = u8::try_from((flags & STAGE) >> 12).ok()?;
        let assume_valid = flags & ASSUME_VALID != 0;
        Some(((path, stage), IndexEntry { mode, id, extended, assume_valid, stat }))
    }

    /// Reads a name that ends with one to eight zero bytes, so that entries are multiples of eight.
    fn name(&mut self, start: usize) -> Option<Vec<u8>> {
        let length = self.bytes.get(self.at..)?.iter().position(|byte| *byte == 0)?;
        let name = self.take(length)?.to_vec();
        let written = self.at - start;
        self.take(8 - written % 8)?;
        Some(name)
    }

    /// Reads a name of version 4: how much of the last name goes, then the rest.
    fn shared_name(&mut self, last: &[u8]) -> Option<Vec<u8>> {
        let mut byte = *self.take(1)?.first()?;
        let mut strip = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = *self.take(1)?.first()?;
            strip =
                strip.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        }
        let mut name = last.get(..last.len().checked_sub(strip)?)?.to_vec();
        let length = self.bytes.get(self.at..)?.iter().position(|byte| *byte == 0)?;
        name.extend(self.take(length)?);
        self.take(1)?;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, args: &[&str]) -> String {
        let mut run = Command::new("git");
        run.arg("-C").arg(dir).args(args).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let run = run.output().unwrap();
        assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).unwrap()
    }

    #[test]
    fn git_reads_back_what_is_written_when_it_wrote_any_version() {
        for version in ["2", "3", "4"] {
            let dir = tempfile::tempdir().unwrap();
            git(dir.path(), &["init", "-q"]);
            for name in ["a", "deep/b", "deep/bc", "deep/x/y", "z"] {
                let path = dir.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, name).unwrap();
            }
            git(dir.path(), &["add", "a", "deep"]);
            git(dir.path(), &["add", "-N", "z"]);
            git(dir.path(), &["update-index", "--index-version", version]);
            let shown = git(dir.path(), &["ls-files", "--stage", "-t"]);
            let file = dir.path().join(".git/index");
            let index = Index::parse(&std::fs::read(&file).unwrap()).unwrap();
            std::fs::write(&file, index.write(&Index::default())).unwrap();
            assert_eq!(git(dir.path(), &["ls-files", "--stage", "-t"]), shown, "version {version}");
            let again = Index::parse(&std::fs::read(&file).unwrap()).unwrap();
            assert!(index.differs(&again).is_empty());
            git(dir.path(), &["status"]);
            let refreshed = Index::parse(&std::fs::read(&file).unwrap()).unwrap();
            assert!(index.differs(&refreshed).is_empty());
            git(dir.path(), &["rm", "-q", "--cached", "a"]);
            let staged = Index::parse(&std::fs::read(&file).unwrap()).unwrap();
            assert_eq!(index.differs(&staged).len(), 1);
        }
    }

    #[test]
    fn damaged_bytes_are_no_index() {
        for bytes in
            [&b""[..], b"DIRC", &[0; 64], b"DIRC\0\0\0\x02\xff\xff\xff\xff01234567890123456789"]
        {
            assert_eq!(Index::parse(bytes), None);
        }
    }
}
