//! One writer in a directory of its own, and what may be found there after it was cut off.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use crate::dice::Dice;

/// The files of one directory.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// One step of the writer.
#[derive(Debug, Clone)]
enum Act {
    Write { name: String, bytes: Vec<u8> },
    Append { name: String, bytes: Vec<u8> },
    Rename { from: String, to: String },
    Remove { name: String },
}

impl Act {
    fn run(&self, dir: &Path) -> io::Result<()> {
        match self {
            Self::Write { name, bytes } => {
                let file = OpenOptions::new()
                    .create(true)
                    .write(true)
                    .truncate(true)
                    .open(dir.join(name))?;
                put(file, bytes)
            }
            Self::Append { name, bytes } => {
                put(OpenOptions::new().append(true).open(dir.join(name))?, bytes)
            }
            Self::Rename { from, to } => fs::rename(dir.join(from), dir.join(to)),
            Self::Remove { name } => fs::remove_file(dir.join(name)),
        }
    }

    fn apply(&self, files: &mut Files) {
        match self {
            Self::Write { name, bytes } => drop(files.insert(name.clone(), bytes.clone())),
            Self::Append { name, bytes } => files.get_mut(name).unwrap().extend(bytes),
            Self::Rename { from, to } => {
                let bytes = files.remove(from).unwrap();
                files.insert(to.clone(), bytes);
            }
            Self::Remove { name } => drop(files.remove(name)),
        }
    }

    /// Whether it ended with the close of a file that was written.
    fn closes(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Append { .. })
    }

    /// Whether this can be found where the act was cut off.
    fn explains(&self, before: &Files, found: &Files) -> bool {
        let mut after = before.clone();
        self.apply(&mut after);
        if *found == *before || *found == after {
            return true;
        }
        let (name, old) = match self {
            Self::Write { name, .. } => (name, None),
            Self::Append { name, .. } => (name, before.get(name)),
            Self::Rename { .. } | Self::Remove { .. } => return false,
        };
        let others = |files: &Files| {
            files
                .iter()
                .filter(|(other, _)| *other != name)
                .map(|(a, b)| (a.clone(), b.clone()))
                .collect::<Files>()
        };
        let start = old.map_or(0, Vec::len);
        let part = found
            .get(name)
            .is_some_and(|part| part.len() >= start && after[name].starts_with(part));
        part && others(found) == others(before)
    }
}

/// In pieces, as most programs write. Nothing is closed whose close has failed.
fn put(mut file: fs::File, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(40_000).try_for_each(|piece| file.write_all(piece))?;
    sandbox_linux::fd::close(file.into())
}

/// A writer between two crashes.
pub(crate) struct Load {
    name: &'static str,
    state: Option<Loaded>,
    total: usize,
}

/// A writer and what it has done.
pub(crate) struct Loaded {
    dice: Dice,
    /// When the last file was closed.
    settled: Files,
    /// What came after that, and what was under way at the end.
    later: Vec<Act>,
    cut: Option<Act>,
    done: usize,
}

impl Load {
    pub(crate) fn new(name: &'static str, seed: u64) -> Self {
        let settled = if name == "left" {
            Files::from([("old".into(), b"from the base".into())])
        } else {
            Files::new()
        };
        let state =
            Loaded { dice: Dice::new(seed), settled, later: Vec::new(), cut: None, done: 0 };
        Self { name, state: Some(state), total: 0 }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    pub(crate) fn take(&mut self) -> Loaded {
        self.state.take().unwrap()
    }

    /// Goes on from what was found.
    pub(crate) fn give_back(&mut self, ended: Loaded, found: Files) {
        self.total += ended.done;
        self.state =
            Some(Loaded { settled: found, later: Vec::new(), cut: None, done: 0, ..ended });
    }
}

impl Loaded {
    /// Writes until the file system is gone.
    pub(crate) fn run(mut self, dir: &Path) -> Self {
        let mut now = self.settled.clone();
        loop {
            let act = self.next(&now);
            if act.run(dir).is_err() {
                self.cut = Some(act);
                return self;
            }
            act.apply(&mut now);
            self.done += 1;
            self.later.push(act);
            if self.later.last().is_some_and(Act::closes) {
                self.later.drain(..).for_each(|act| act.apply(&mut self.settled));
            }
        }
    }

    fn next(&mut self, now: &Files) -> Act {
        let names: Vec<&String> = now.keys().collect();
        let fresh = format!("file {}", self.dice.below(60));
        if names.is_empty() || self.dice.below(10) < 5 {
            let size = self.dice.pick(&[0, 10, 3000, 3000, 20_000, 70_000, 250_000]);
            let size = self.dice.below(size + 1);
            return Act::Write { name: fresh, bytes: self.dice.bytes(size) };
        }
        let name = self.dice.pick(&names).clone();
        match self.dice.below(5) {
            0 | 1 => {
                let size = self.dice.below(9000);
                Act::Append { name, bytes: self.dice.bytes(size) }
            }
            2 | 3 => Act::Rename { from: name, to: fresh },
            _ => Act::Remove { name },
        }
    }

    /// Whether these files are a moment at or after the last close.
    pub(crate) fn explains(&self, found: &Files) -> Result<(), String> {
        let mut files = self.settled.clone();
        // The content of a file that was being written may be there before renames that came ahead of it.
        let explained = |files: &Files| {
            files == found || self.cut.as_ref().is_some_and(|act| act.explains(files, found))
        };
        for act in &self.later {
            if explained(&files) {
                return Ok(());
            }
            act.apply(&mut files);
        }
        if explained(&files) {
            return Ok(());
        }
        let differ =
            files.keys().chain(found.keys()).filter(|name| files.get(*name) != found.get(*name));
        let size = |files: &Files, name: &String| files.get(name).map(Vec::len);
        let text = differ.map(|name| {
            format!("`{name}` is {:?}, expected {:?} bytes", size(found, name), size(&files, name))
        });
        let text = text.collect::<Vec<_>>().join("\n");
        let brief = |act: &Act| format!("{act:?}").chars().take(100).collect::<String>();
        let later: Vec<_> = self.later.iter().map(brief).collect();
        Err(format!(
            "this never was:\n{text}\nafter the last close: {later:?}\nunder way: {:?}",
            self.cut.as_ref().map(brief)
        ))
    }
}

/// The files of a directory.
pub(crate) fn read(dir: &Path) -> Files {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect()
}
