//! A directory as a disk stores it: data that is certain, and data that may or may not have arrived.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::trace::Event;
use crate::dice::Dice;

/// Fate of writes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost,
    Kept,
    /// Some are complete, some missing, some partial.
    Torn,
}

/// Unit that a disk writes atomically.
const SECTOR: usize = 512;

#[derive(Debug, Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
    Zero { at: usize, length: usize },
}

#[derive(Debug, Clone, Default)]
struct Stored {
    certain: Vec<u8>,
    pending: Vec<Change>,
    now: Vec<u8>,
}

/// Files by number, with two sets of names: the certain ones, and the current ones.
pub(crate) struct Disk {
    root: PathBuf,
    files: Vec<Stored>,
    names: BTreeMap<PathBuf, usize>,
    certain: BTreeMap<PathBuf, usize>,
    /// Offsets of descriptors, and append flags.
    positions: BTreeMap<i64, (usize, bool)>,
}

impl Disk {
    /// Reads the directory before the recording. All of it is certain.
    pub(crate) fn of(root: &Path) -> Self {
        let none = BTreeMap::new();
        let mut disk = Self {
            root: root.to_owned(),
            files: Vec::new(),
            names: none.clone(),
            certain: none,
            positions: BTreeMap::new(),
        };
        for entry in fs::read_dir(root).unwrap().map(Result::unwrap) {
            let bytes = fs::read(entry.path()).unwrap();
            disk.names.insert(entry.path(), disk.files.len());
            disk.files.push(Stored { certain: bytes.clone(), pending: Vec::new(), now: bytes });
        }
        disk.certain = disk.names.clone();
        disk
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains_key(&self.root.join(name))
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.names != self.certain || self.files.iter().any(|file| !file.pending.is_empty())
    }

    fn inside(&self, path: &Path) -> bool {
        path.starts_with(&self.root)
    }

    fn file(&mut self, path: &Path) -> Option<&mut Stored> {
        let number = *self.names.get(path)?;
        self.files.get_mut(number)
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event.call.as_str() {
            "openat" | "open" | "creat" => self.open(event),
            "lseek" => drop(
                self.positions
                    .entry(event.descriptor())
                    .and_modify(|place| place.0 = usize::try_from(event.result).unwrap()),
            ),
            "pwrite64" => self.change(event, |event| {
                Some(Change::Write {
                    at: usize::try_from(event.number(3)).unwrap(),
                    bytes: event.bytes(1).to_vec(),
                })
            }),
            "write" => self.append(event),
            "ftruncate" => self.change(event, |event| {
                Some(Change::Length(usize::try_from(event.number(1)).unwrap()))
            }),
            "fallocate" => self.change(event, allocate),
            "fsync" | "fdatasync" => self.wait(&event.path(0)),
            "rename" => self.rename(&event.path(0), &event.path(1)),
            "renameat" | "renameat2" => {
                self.rename(&event.path(0).join(event.path(1)), &event.path(2).join(event.path(3)));
            }
            "unlink" => drop(self.names.remove(&event.path(0))),
            "unlinkat" => drop(self.names.remove(&event.path(0).join(event.path(1)))),
            "close" | "dup" | "ioctl" => {}
            "copy_file_range" => self.copy(event),
            other => assert!(!self.inside(&event.path(0)), "cannot replay `{other}`: {event:?}"),
        }
    }

    fn open(&mut self, event: &Event) {
        let Some(path) = event.opened.clone().filter(|path| self.inside(path)) else { return };
        // A directory, or a file without a name.
        if !self.names.contains_key(&path) && !event.has("O_CREAT") {
            return;
        }
        self.positions.insert(event.result, (0, event.has("O_APPEND")));
        if !self.names.contains_key(&path) {
            self.names.insert(path.clone(), self.files.len());
            self.files.push(Stored::default());
        }
        if event.has("O_TRUNC") {
            self.file(&path).unwrap().apply(Change::Length(0));
        }
    }

    fn change(&mut self, event: &Event, what: impl Fn(&Event) -> Option<Change>) {
        let path = event.path(0);
        if self.inside(&path)
            && let Some(change) = what(event)
        {
            // A file without a name does not matter after a crash.
            if let Some(file) = self.file(&path) {
                file.apply(change);
            }
        }
    }

    fn append(&mut self, event: &Event) {
        let path = event.path(0);
        if !self.inside(&path) {
            return;
        }
        let length = self.file(&path).map_or(0, |file| file.now.len());
        let place = self.positions.entry(event.descriptor()).or_insert((0, false));
        let at = if place.1 { length } else { place.0 };
        let written = usize::try_from(event.result).unwrap();
        place.0 = at + written;
        let bytes = event.bytes(1)[..written].to_vec();
        if let Some(file) = self.file(&path) {
            file.apply(Change::Write { at, bytes });
        }
    }

    /// Reads from a file outside, which does not change, or from a recorded file.
    fn copy(&mut self, event: &Event) {
        let (from, to) = (event.path(0), event.path(2));
        if !self.inside(&to) {
            return;
        }
        let start = usize::try_from(event.number(1)).unwrap();
        let at = usize::try_from(event.number(3)).unwrap();
        let length = usize::try_from(event.result).unwrap();
        let ours = self.file(&from).map(|file| file.now.clone());
        let source = ours.unwrap_or_else(|| fs::read(&from).unwrap());
        let bytes = source[start..start + length].to_vec();
        if let Some(file) = self.file(&to) {
            file.apply(Change::Write { at, bytes });
        }
    }

    fn wait(&mut self, path: &Path) {
        if let Some(number) = self.names.get(path).copied() {
            let file = &mut self.files[number];
            file.certain = file.now.clone();
            file.pending.clear();
            // An fsync of a file also persists its new name.
            self.certain.insert(path.to_owned(), number);
        } else if self.inside(path) {
            let here = |name: &Path| name.parent() == Some(path);
            self.certain.retain(|name, _| !here(name));
            self.certain.extend(
                self.names
                    .iter()
                    .filter(|(name, _)| here(name))
                    .map(|(name, number)| (name.clone(), *number)),
            );
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        if let Some(number) = self.names.remove(from) {
            self.names.insert(to.to_owned(), number);
        }
    }

    /// Writes the files as they would be found.
    pub(crate) fn write(&self, into: &Path, fate: Fate, dice: &mut Dice) {
        let names = match fate {
            Fate::Lost => &self.certain,
            Fate::Kept => &self.names,
            Fate::Torn => {
                if dice.one_in(2) {
                    &self.certain
                } else {
                    &self.names
                }
            }
        };
        for (name, number) in names {
            let file = &self.files[*number];
            let bytes = match fate {
                Fate::Lost => file.certain.clone(),
                Fate::Kept => file.now.clone(),
                Fate::Torn => file.torn(dice),
            };
            let path = into.join(name.strip_prefix(&self.root).unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
}

fn allocate(event: &Event) -> Option<Change> {
    let (at, length) =
        (usize::try_from(event.number(2)).unwrap(), usize::try_from(event.number(3)).unwrap());
    if event.has("PUNCH_HOLE") || event.has("ZERO_RANGE") {
        return Some(Change::Zero { at, length });
    }
    None
}

impl Stored {
    fn apply(&mut self, change: Change) {
        apply(&mut self.now, &change);
        self.pending.push(change);
    }

    fn torn(&self, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.certain.clone();
        for change in &self.pending {
            match (dice.below(3), change) {
                (0, _) => {}
                (1, Change::Write { at, bytes: written }) => {
                    let sectors = dice.below(written.len() / SECTOR + 1) * SECTOR;
                    apply(
                        &mut bytes,
                        &Change::Write { at: *at, bytes: written[..sectors].to_vec() },
                    );
                }
                _ => apply(&mut bytes, change),
            }
        }
        bytes
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { at, bytes: written } => {
            if bytes.len() < at + written.len() {
                bytes.resize(at + written.len(), 0);
            }
            bytes[*at..at + written.len()].copy_from_slice(written);
        }
        Change::Length(length) => bytes.resize(*length, 0),
        Change::Zero { at, length } => {
            let end = (at + length).min(bytes.len());
            if *at < end {
                bytes[*at..end].fill(0);
            }
        }
    }
}
