//! Random bases and operations, on few names so that they interact.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags};
use testkit::Engine;

use super::op::{Bytes, Op, path_of};
use crate::dice::Dice;

/// Names: plain ones, one that is not UTF-8, one of maximum length, one that other overlays reserve.
const NAMES: [&[u8]; 9] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"two words",
    "\u{fc}".as_bytes(),
    b"\xff\xfe",
    &[b'l'; 255],
    b".wh.a",
];
const DIRS: [&str; 3] = ["x", "y", "z"];
const XATTRS: [&str; 3] = ["user.one", "user.two", "user.three"];
/// Sizes around those at which an engine changes how it stores a file.
const SIZES: [usize; 12] =
    [0, 1, 100, 4095, 4096, 4097, 20_000, 65_535, 65_537, 131_072, 150_000, 400_000];

pub(crate) struct Generator {
    pub(crate) dice: Dice,
    pub(crate) engine: Engine,
    /// True when owners can be changed.
    pub(crate) root: bool,
}

impl Generator {
    /// Fills a directory.
    pub(crate) fn base(&mut self, dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        for first in DIRS {
            fs::create_dir(dir.join(first)).unwrap();
            for second in DIRS.iter().filter(|_| self.dice.below(3) > 0).collect::<Vec<_>>() {
                fs::create_dir(dir.join(first).join(second)).unwrap();
            }
        }
        for _ in 0..40 {
            let path = dir.join(self.path());
            self.thing(&path);
        }
        self.age(dir);
    }

    /// Adds one entry to the base, unless the name exists or its directory does not.
    fn thing(&mut self, path: &Path) {
        let _ = match self.dice.below(8) {
            0 => fs::create_dir(path),
            1 => std::os::unix::fs::symlink(self.target(), path),
            2 if self.engine != Engine::Overlay => {
                let other = path.with_file_name("twin of many names");
                fs::write(&other, b"one file").and_then(|()| fs::hard_link(other, path))
            }
            _ => self.file(path),
        };
    }

    fn file(&mut self, path: &Path) -> std::io::Result<()> {
        if fs::symlink_metadata(path).is_ok() {
            return Ok(());
        }
        let size = self.size();
        fs::write(path, self.dice.bytes(size))?;
        let mode = self.dice.pick(&[0o644, 0o755, 0o600, 0o444]);
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))?;
        if self.dice.one_in(3) && mode != 0o444 {
            rustix::fs::setxattr(path, XATTRS[0], b"from the base", XattrFlags::empty())?;
        }
        Ok(())
    }

    /// Everything in the base has an old time.
    fn age(&mut self, dir: &Path) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                self.age(&entry.path());
            }
        }
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        for path in names.chain([dir.to_owned()]) {
            let (seconds, nanoseconds) = self.time();
            let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
            let times = Timestamps { last_access: time, last_modification: time };
            rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        }
    }

    fn time(&mut self) -> (i64, i64) {
        let below = |dice: &mut Dice, limit| i64::try_from(dice.below(limit)).unwrap();
        (1_000_000_000 + below(&mut self.dice, 500_000_000), below(&mut self.dice, 1_000_000_000))
    }

    fn size(&mut self) -> usize {
        let size = self.dice.pick(&SIZES);
        if size > 1000 && self.dice.one_in(2) { size - self.dice.below(900) } else { size }
    }

    fn path(&mut self) -> PathBuf {
        let mut path = PathBuf::new();
        for _ in 0..self.dice.below(3) {
            path.push(self.dice.pick(&DIRS));
        }
        if self.dice.one_in(5) {
            path.join(self.dice.pick(&DIRS))
        } else {
            path.join(path_of(self.dice.pick(&NAMES)))
        }
    }

    /// Returns a directory in most cases.
    fn dir(&mut self) -> PathBuf {
        if self.dice.one_in(4) {
            return self.path();
        }
        (0..=self.dice.below(2)).map(|_| self.dice.pick(&DIRS)).collect()
    }

    fn either(&mut self) -> PathBuf {
        if self.dice.one_in(3) { self.dir() } else { self.path() }
    }

    fn target(&mut self) -> PathBuf {
        let long = "t".repeat(300);
        let targets: [&[u8]; 4] = [b"a", b"x/y/b", b"\xfe\xff", long.as_bytes()];
        path_of(self.dice.pick(&targets))
    }

    fn bytes(&mut self) -> Bytes {
        let size = self.size();
        Bytes(self.dice.bytes(size))
    }

    fn offset(&mut self) -> u64 {
        self.size() as u64
    }

    pub(crate) fn op(&mut self) -> Op {
        match self.dice.below(100) {
            0..30 => self.data(),
            30..62 => self.names(),
            62..80 => self.attributes(),
            _ => self.open(),
        }
    }

    fn data(&mut self) -> Op {
        let path = self.path();
        match self.dice.below(12) {
            0..4 => {
                let kinds = [OFlags::TRUNC, OFlags::empty(), OFlags::APPEND, OFlags::EXCL];
                let flags = OFlags::CREATE | OFlags::WRONLY | self.dice.pick(&kinds);
                let at = if self.dice.one_in(2) { 0 } else { self.offset() };
                Op::Write { path, flags, at, bytes: self.bytes() }
            }
            4 | 5 => {
                Op::Write { path, flags: OFlags::WRONLY, at: self.offset(), bytes: self.bytes() }
            }
            6 | 7 => Op::Read { path },
            8 => Op::Truncate { path, length: self.offset() },
            9 => Op::Punch { path, at: self.offset(), length: self.offset() + 1 },
            10 => Op::Allocate { path, at: self.offset(), length: self.offset() + 1 },
            _ => Op::Copy { from: path, to: self.path(), at: self.offset(), length: self.size() },
        }
    }

    fn names(&mut self) -> Op {
        match self.dice.below(16) {
            0..4 => {
                let kinds = [
                    RenameFlags::empty(),
                    RenameFlags::empty(),
                    RenameFlags::NOREPLACE,
                    RenameFlags::EXCHANGE,
                ];
                Op::Rename { from: self.either(), to: self.either(), flags: self.dice.pick(&kinds) }
            }
            4 | 5 => Op::Link { from: self.path(), to: self.path() },
            6..9 => Op::Unlink { path: self.path() },
            9 => Op::Rmdir { path: self.either() },
            10 | 11 => {
                Op::Mkdir { path: self.either(), mode: self.dice.pick(&[0o755, 0o700, 0o1777]) }
            }
            12 => Op::Symlink { path: self.path(), target: self.target() },
            13 => Op::Fifo { path: self.path() },
            14 => Op::Empty { path: self.dir() },
            _ => Op::List { path: self.dir() },
        }
    }

    fn attributes(&mut self) -> Op {
        let path = self.either();
        match self.dice.below(7) {
            0 | 1 => {
                // Root keeps set-id bits across a write, and engines clear them, which is safer. Other users
                // must not lose access to a directory.
                let modes = if self.root {
                    [0o644, 0o755, 0o700, 0o600]
                } else {
                    [0o744, 0o700, 0o4755, 0o2755]
                };
                Op::Chmod { path, mode: self.dice.pick(&modes) }
            }
            2 if self.root => {
                let id = |dice: &mut Dice| dice.pick(&[0, 1, 1000, 65_534]);
                Op::Chown { path, uid: id(&mut self.dice), gid: id(&mut self.dice) }
            }
            2 | 3 => {
                let (seconds, nanoseconds) = self.time();
                Op::Times { path, seconds, nanoseconds }
            }
            4 | 5 => {
                let flags =
                    self.dice.pick(&[XattrFlags::empty(), XattrFlags::CREATE, XattrFlags::REPLACE]);
                let length = self.dice.pick(&[0, 1, 30, 800]);
                let value = Bytes(self.dice.bytes(length));
                Op::SetXattr { path, name: self.dice.pick(&XATTRS), value, flags }
            }
            _ => Op::RemoveXattr { path, name: self.dice.pick(&XATTRS) },
        }
    }

    fn open(&mut self) -> Op {
        let handle = self.dice.below(12);
        match self.dice.below(12) {
            0..3 => {
                // A descriptor that overlayfs opened for reading keeps showing the base (overlayfs.rst,
                // "Non-standard behavior").
                let kinds = [OFlags::RDWR, OFlags::RDWR | OFlags::CREATE, OFlags::RDONLY];
                let flags =
                    self.dice.pick(&kinds[..if self.engine == Engine::Overlay { 2 } else { 3 }]);
                Op::Open { path: self.path(), flags }
            }
            3 | 4 => Op::OpenRead { handle },
            5 | 6 => Op::OpenWrite { handle, at: self.offset(), bytes: self.bytes() },
            7 => Op::OpenTruncate { handle, length: self.offset() },
            8 => Op::OpenStat { handle },
            9 => Op::OpenSync { handle },
            _ => Op::Close { handle },
        }
    }
}
