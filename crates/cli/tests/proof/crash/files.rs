//! The files of one directory, as a model and as found.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// Names, and the files that they refer to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    names: BTreeMap<String, u64>,
    files: HashMap<u64, File>,
}

/// One file, under all its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
}

impl Files {
    /// Reads a directory.
    pub(crate) fn read(dir: &Path) -> Self {
        let mut read = Self::default();
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let meta = entry.metadata().unwrap();
            let bytes = fs::read(entry.path()).unwrap();
            assert_eq!(bytes.len() as u64, meta.len(), "{}", entry.path().display());
            read.names.insert(entry.file_name().into_string().unwrap(), meta.ino());
            read.files.insert(meta.ino(), File { bytes, mode: meta.permissions().mode() & 0o7777 });
        }
        read
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    fn get(&self, name: &str) -> Option<&File> {
        self.files.get(self.names.get(name)?)
    }

    pub(crate) fn length(&self, name: &str) -> usize {
        self.get(name).map_or(0, |file| file.bytes.len())
    }

    /// Changes a file, under all its names.
    pub(crate) fn change(&mut self, name: &str, change: impl FnOnce(&mut File)) {
        change(self.files.get_mut(&self.names[name]).unwrap());
    }

    /// Replaces the content of a file; it may be new.
    pub(crate) fn write(&mut self, name: &str, bytes: &[u8]) {
        if !self.names.contains_key(name) {
            // A number that no file has had: the files that were found use the same counter.
            let ino = self.files.keys().max().unwrap_or(&0) + 1;
            self.names.insert(name.to_owned(), ino);
            self.files.insert(ino, File { bytes: Vec::new(), mode: 0o600 });
        }
        self.change(name, |file| file.bytes = bytes.to_vec());
    }

    pub(crate) fn link(&mut self, from: &str, to: &str) {
        self.names.insert(to.to_owned(), self.names[from]);
    }

    /// Two names of one file are kept.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        if self.names.get(from) != self.names.get(to) {
            let ino = self.names.remove(from).unwrap();
            self.names.insert(to.to_owned(), ino);
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.names.remove(name);
    }

    /// Returns true when names, contents and modes are equal, and the same names refer to one file.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let (mut there, mut back) = (HashMap::new(), HashMap::new());
        self.names.len() == other.names.len()
            && self.names.iter().zip(&other.names).all(|((name, ino), (found, found_ino))| {
                name == found
                    && there.insert(ino, found_ino).is_none_or(|before| before == found_ino)
                    && back.insert(found_ino, ino).is_none_or(|before| before == ino)
                    && self.get(name) == other.get(found)
            })
    }

    /// Describes the differences of `found`.
    pub(crate) fn differences(&self, found: &Self) -> String {
        let names = self.names.keys().chain(found.names.keys());
        let text = |file: Option<&File>| match file {
            Some(file) => format!("{} bytes, {:o}", file.bytes.len(), file.mode),
            None => "nothing".to_owned(),
        };
        let differ = names.filter(|name| self.get(name) != found.get(name)).map(|name| {
            format!("`{name}` is {}, expected {}", text(found.get(name)), text(self.get(name)))
        });
        let lines: Vec<_> = differ.collect();
        if lines.is_empty() { "other names lead to one file".into() } else { lines.join("\n") }
    }
}
