//! A writer in its own directory, and the states in which it may be found after a crash.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::files::Files;
use crate::dice::Dice;

/// One step of the writer.
#[derive(Debug, Clone)]
enum Act {
    Write { name: String, bytes: Vec<u8> },
    Append { name: String, bytes: Vec<u8> },
    Truncate { name: String, size: usize },
    Mode { name: String, mode: u32 },
    Link { from: String, to: String },
    Rename { from: String, to: String },
    Remove { name: String },
}

impl Act {
    fn run(&self, dir: &Path) -> io::Result<()> {
        match self {
            Self::Write { name, bytes } => {
                let mut how = OpenOptions::new();
                put(how.create(true).write(true).truncate(true).mode(0o600), &dir.join(name), bytes)
            }
            Self::Append { name, bytes } => {
                put(OpenOptions::new().append(true), &dir.join(name), bytes)
            }
            Self::Truncate { name, size } => {
                let path = dir.join(name);
                Ok(rustix::fs::ftruncate(OpenOptions::new().write(true).open(path)?, *size as u64)?)
            }
            Self::Mode { name, mode } => {
                fs::set_permissions(dir.join(name), fs::Permissions::from_mode(*mode))
            }
            Self::Link { from, to } => fs::hard_link(dir.join(from), dir.join(to)),
            Self::Rename { from, to } => fs::rename(dir.join(from), dir.join(to)),
            Self::Remove { name } => fs::remove_file(dir.join(name)),
        }
    }

    fn apply(&self, files: &mut Files) {
        match self {
            Self::Write { name, bytes } => files.write(name, bytes),
            Self::Append { name, bytes } => {
                files.change(name, |file| file.bytes.extend(bytes));
            }
            Self::Truncate { name, size } => {
                files.change(name, |file| file.bytes.resize(*size, 0));
            }
            Self::Mode { name, mode } => files.change(name, |file| file.mode = *mode),
            Self::Link { from, to } => files.link(from, to),
            Self::Rename { from, to } => files.rename(from, to),
            Self::Remove { name } => files.remove(name),
        }
    }

    /// Returns true for a state in which an interrupted step may be found: done, not done, or with part of the content.
    fn explains(&self, before: &Files, found: &Files) -> bool {
        let mut after = before.clone();
        self.apply(&mut after);
        if found.same(before) || found.same(&after) {
            return true;
        }
        let (name, least) = match self {
            Self::Write { name, .. } => (name, 0),
            Self::Append { name, .. } => (name, before.length(name)),
            _ => return false,
        };
        // Every length in between is a part, for all names of the file.
        let part = found.length(name);
        if part < least || part > after.length(name) {
            return false;
        }
        after.change(name, |file| file.bytes.truncate(part));
        found.same(&after)
    }
}

/// Writes in pieces, as most programs do. A failed close is not ignored.
fn put(how: &OpenOptions, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = how.open(path)?;
    bytes.chunks(40_000).try_for_each(|piece| file.write_all(piece))?;
    sandbox_linux::fd::close(file.into())
}

/// Writer between two crashes.
pub(crate) struct Load {
    name: &'static str,
    state: Option<Loaded>,
    total: usize,
}

/// Writer with its completed steps.
pub(crate) struct Loaded {
    dice: Dice,
    /// All acknowledged steps.
    files: Files,
    /// The last of them, for the report of a failure.
    log: Vec<String>,
    /// Step in progress at the end.
    cut: Option<Act>,
    pub(crate) done: usize,
}

impl Load {
    /// Creates a writer in the directory `name` of a tree.
    pub(crate) fn new(tree: &Path, name: &'static str, seed: u64) -> Self {
        let files = Files::read(&tree.join(name));
        let state = Loaded { dice: Dice::new(seed), files, log: Vec::new(), cut: None, done: 0 };
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

    /// Continues from the state that was found.
    pub(crate) fn give_back(&mut self, ended: Loaded, found: Files) {
        self.total += ended.done;
        self.state = Some(Loaded { files: found, log: Vec::new(), cut: None, done: 0, ..ended });
    }
}

impl Loaded {
    /// Writes until the file system is gone.
    pub(crate) fn run(mut self, dir: &Path) -> Self {
        loop {
            let act = self.next();
            if act.run(dir).is_err() {
                self.cut = Some(act);
                return self;
            }
            act.apply(&mut self.files);
            self.done += 1;
            if self.log.len() == 12 {
                self.log.remove(0);
            }
            self.log.push(brief(&act));
        }
    }

    fn next(&mut self) -> Act {
        let names = self.files.names();
        let fresh = format!("file {}", self.dice.below(60));
        if names.is_empty() || self.dice.below(10) < 4 {
            let size = self.dice.pick(&[0, 10, 3000, 3000, 20_000, 70_000, 250_000]);
            let size = self.dice.below(size + 1);
            return Act::Write { name: fresh, bytes: self.dice.bytes(size) };
        }
        let name = names[self.dice.below(names.len())].clone();
        match self.dice.below(9) {
            0 | 1 => {
                let size = self.dice.below(9000);
                Act::Append { name, bytes: self.dice.bytes(size) }
            }
            2 | 3 => Act::Rename { from: name, to: fresh },
            4 => Act::Truncate { name, size: self.dice.below(200_000) },
            5 => Act::Mode { name, mode: self.dice.pick(&[0o600, 0o640, 0o755]) },
            6 if !names.contains(&fresh) => Act::Link { from: name, to: fresh },
            _ => Act::Remove { name },
        }
    }

    /// Returns true when these files are the acknowledged ones, with the last step done, not done or partly done.
    pub(crate) fn explains(&self, found: &Files) -> Result<(), String> {
        if found.same(&self.files)
            || self.cut.as_ref().is_some_and(|act| act.explains(&self.files, found))
        {
            return Ok(());
        }
        Err(format!(
            "this never was:\n{}\nthe last acts: {:#?}\nunder way: {:?}",
            self.files.differences(found),
            self.log,
            self.cut.as_ref().map(brief)
        ))
    }
}

fn brief(act: &Act) -> String {
    format!("{act:?}").chars().take(100).collect()
}
