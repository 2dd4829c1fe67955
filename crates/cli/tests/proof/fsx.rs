//! One file, random reads and writes of every kind, and a model in memory with the expected content.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::FallocateFlags;
use sandbox_linux::map::SharedMap;
use testkit::{Engine, Layered, World, rounds};

use crate::dice::{Dice, seeds};

/// Maximum size of the file: above every size at which an engine changes how it stores one.
const LONGEST: usize = 320 << 10;
/// Operations between two mounts.
const BETWEEN: usize = 2500;

#[test]
fn overlay_keeps_what_a_random_writer_wrote() {
    exercise(Engine::Overlay);
}

#[test]
fn agentfs_keeps_what_a_random_writer_wrote() {
    exercise(Engine::AgentFs);
}

fn exercise(engine: Engine) {
    let seeds = seeds(2, 4);
    let operations = rounds(40_000, 1_000_000) / seeds.len();
    for seed in seeds {
        let world = World::new();
        let mut dice = Dice::new(seed);
        let start = dice.below(LONGEST);
        let model = dice.bytes(start);
        world.write("fsx/base/file", &model);
        let tree = Layered::new(&world, "fsx", engine);
        let mut writer = Writer { file: open(&tree.path()), tree, dice, model, log: Vec::new() };
        for number in 0..operations {
            writer.step();
            if number % BETWEEN == BETWEEN - 1 {
                writer.remount();
            }
        }
        writer.check_all("at the end");
    }
}

fn open(tree: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(tree.join("file")).unwrap()
}

struct Writer {
    tree: Layered,
    file: File,
    dice: Dice,
    model: Vec<u8>,
    /// The last operations, for the report of a failure.
    log: Vec<String>,
}

impl Writer {
    fn step(&mut self) {
        match self.dice.below(1000) {
            0..220 => self.read(),
            220..440 => self.write(),
            440..560 => self.map_read(),
            560..680 => self.map_write(),
            680..780 => self.truncate(),
            780..840 => self.punch(),
            840..880 => self.allocate(),
            880..940 => self.copy(),
            940..960 => self.append(),
            960..998 => self.reopen(),
            _ => self.sync(),
        }
    }

    fn note(&mut self, what: String) {
        if self.log.len() > 60 {
            self.log.remove(0);
        }
        self.log.push(what);
    }

    /// Returns a range within the file, usually short, sometimes at a boundary of pages or chunks.
    fn range(&mut self, end: usize) -> (usize, usize) {
        let mut from = self.dice.below(end.max(1));
        if self.dice.one_in(3) {
            from &= !(self.dice.pick(&[4095, 65_535]));
        }
        let longest = self.dice.pick(&[16, 5000, 70_000, 140_000]);
        (from, (from + self.dice.below(longest)).min(end).max(from))
    }

    fn same(&self, at: usize, found: &[u8], how: &str) {
        let expected = &self.model[at..at + found.len()];
        if let Some(first) = (0..found.len()).find(|index| found[*index] != expected[*index]) {
            panic!(
                "{how} {at}+{}: byte {} is {:#x}, expected {:#x}, file of {}\n{}",
                found.len(),
                at + first,
                found[first],
                expected[first],
                self.model.len(),
                self.log.join("\n"),
            );
        }
    }

    fn read(&mut self) {
        let (from, to) = self.range(self.model.len());
        let mut bytes = vec![0; to - from];
        self.file.read_exact_at(&mut bytes, from as u64).unwrap_or_else(|error| {
            panic!("read {from}..{to} of {}: {error}\n{}", self.model.len(), self.log.join("\n"))
        });
        self.same(from, &bytes, "read");
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.model.len() < at + bytes.len() {
            self.model.resize(at + bytes.len(), 0);
        }
        self.model[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn write(&mut self) {
        let (from, to) = self.range(LONGEST);
        self.note(format!("write {from}..{to}"));
        let bytes = self.dice.bytes(to - from);
        self.file.write_all_at(&bytes, from as u64).unwrap();
        self.put(from, &bytes);
    }

    fn append(&mut self) {
        use std::io::Write as _;
        let length = self.dice.below(9000).min(LONGEST - self.model.len());
        self.note(format!("append {length}"));
        let bytes = self.dice.bytes(length);
        let file = OpenOptions::new().append(true).open(self.tree.path().join("file"));
        file.unwrap().write_all(&bytes).unwrap();
        self.put(self.model.len(), &bytes);
    }

    fn map_read(&mut self) {
        if self.model.is_empty() {
            return;
        }
        let map = SharedMap::of(&self.file, self.model.len(), false).unwrap();
        let (from, to) = self.range(self.model.len());
        let mut bytes = vec![0; to - from];
        map.read(from, &mut bytes);
        self.same(from, &bytes, "read by mmap");
    }

    fn map_write(&mut self) {
        if self.model.is_empty() {
            return;
        }
        let mut map = SharedMap::of(&self.file, self.model.len(), true).unwrap();
        let (from, to) = self.range(self.model.len());
        self.note(format!("write by mmap {from}..{to}"));
        let bytes = self.dice.bytes(to - from);
        map.write(from, &bytes);
        if self.dice.one_in(100) {
            map.sync().unwrap();
        }
        self.put(from, &bytes);
    }

    fn truncate(&mut self) {
        let length = if self.dice.one_in(6) { 0 } else { self.dice.below(LONGEST) };
        self.note(format!("truncate from {} to {length}", self.model.len()));
        self.file.set_len(length as u64).unwrap();
        self.model.resize(length, 0);
    }

    fn punch(&mut self) {
        let (from, to) = self.range(self.model.len());
        if from == to {
            return;
        }
        self.note(format!("punch {from}..{to}"));
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, how, from as u64, (to - from) as u64).unwrap();
        self.model[from..to].fill(0);
    }

    fn allocate(&mut self) {
        let (from, to) = self.range(LONGEST);
        if from == to {
            return;
        }
        self.note(format!("allocate {from}..{to}"));
        let none = FallocateFlags::empty();
        rustix::fs::fallocate(&self.file, none, from as u64, (to - from) as u64).unwrap();
        self.model.resize(self.model.len().max(to), 0);
    }

    /// Copies within the file, from one range to one that does not overlap.
    fn copy(&mut self) {
        let (from, to) = self.range(self.model.len());
        let length = (to - from).min(LONGEST.saturating_sub(to));
        if length == 0 {
            return;
        }
        let at = to + self.dice.below(LONGEST - to - length + 1);
        self.note(format!("copy {from}+{length} to {at}"));
        let (mut start, mut end, mut copied) = (from as u64, at as u64, 0);
        while copied < length {
            let left = length - copied;
            let file = &self.file;
            match rustix::fs::copy_file_range(file, Some(&mut start), file, Some(&mut end), left)
                .unwrap()
            {
                0 => panic!("copies nothing\n{}", self.log.join("\n")),
                more => copied += more,
            }
        }
        let bytes = self.model[from..from + length].to_vec();
        self.put(at, &bytes);
    }

    fn reopen(&mut self) {
        self.note("reopen".into());
        self.file = open(&self.tree.path());
        assert_eq!(
            self.file.metadata().unwrap().len(),
            self.model.len() as u64,
            "{}",
            self.log.join("\n")
        );
    }

    fn sync(&mut self) {
        self.file.sync_all().unwrap();
    }

    fn remount(&mut self) {
        self.note("remount".into());
        // A mount cannot be removed while one of its files is open.
        self.file = File::open("/dev/null").unwrap();
        self.tree.remount();
        self.file = open(&self.tree.path());
        self.check_all("after a remount");
    }

    fn check_all(&self, when: &str) {
        let found = std::fs::read(self.tree.path().join("file")).unwrap();
        assert_eq!(found.len(), self.model.len(), "length {when}\n{}", self.log.join("\n"));
        self.same(0, &found, when);
    }
}
