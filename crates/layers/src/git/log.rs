//! Parses the output of `git log` and its siblings.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::ask::MAX_HELD;
use super::{Commit, Held, Index, RefChange};
use crate::repository::Entry;

/// As many commits of a ref are named.
const MAX_NAMED: usize = 1000;
/// Marks the fields of a commit.
const MARK: char = '\u{2}';

/// Lists commits with the files that each changes. Of a merge, those that differ from all parents.
pub(super) const COMMAND: [&str; 14] = [
    "log",
    "--stdin",
    "--topo-order",
    "--no-color",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-notes",
    "--no-mailmap",
    "--raw",
    "--no-abbrev",
    "-z",
    "-c",
    "--format=%x02%H%x02%P%x02%s",
];

/// A tree, file by file: mode and object of each path.
pub(super) type Tree = BTreeMap<PathBuf, (String, String)>;

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Raw {
    pub(super) path: PathBuf,
    /// The new mode, in octal; zeros where it is gone.
    pub(super) mode: String,
    /// The new object.
    pub(super) id: String,
}

impl Raw {
    pub(super) fn of_index(path: &[u8], entry: Option<&Entry>) -> Self {
        let path = PathBuf::from(OsStr::from_bytes(path));
        match entry {
            Some(entry) => Self { path, mode: format!("{:06o}", entry.mode), id: entry.id.clone() },
            None => Self { path, mode: "000000".into(), id: String::new() },
        }
    }

    /// The object, or nothing.
    pub(super) fn known_id(&self) -> &str {
        &self.id
    }
}

/// New commits.
#[derive(Debug, Default)]
pub(super) struct Log {
    commits: BTreeMap<String, (Vec<String>, String)>,
    /// The files that each commit changes.
    pub(super) changes: BTreeMap<String, Vec<Raw>>,
}

impl Log {
    pub(super) fn parse(output: &[u8]) -> Self {
        let (mut log, mut last) = (Self::default(), String::new());
        let mut tokens = output.split(|byte| *byte == 0);
        while let Some(token) = tokens.next() {
            let token = token.strip_prefix(b"\n").unwrap_or(token);
            if token.starts_with(b":") {
                let raw = raw(token, tokens.next().unwrap_or_default());
                log.changes.entry(last.clone()).or_default().extend(raw);
            } else if token.starts_with(&[MARK as u8]) {
                let text = String::from_utf8_lossy(token).into_owned();
                let mut fields = text.splitn(4, MARK).skip(1).map(str::to_owned);
                last = fields.next().unwrap_or_default();
                let parents = fields.next().unwrap_or_default();
                let parents = parents.split(' ').filter(|id| !id.is_empty());
                let parents = parents.map(str::to_owned).collect();
                let subject = fields.next().unwrap_or_default();
                log.commits.insert(last.clone(), (parents, subject));
            }
        }
        log
    }

    /// Tells a ref which of the new commits it leads to, and what in them is held.
    pub(super) fn reach(
        &self,
        tip: &str,
        held: &BTreeMap<String, Vec<Held>>,
        change: &mut RefChange,
    ) {
        let (mut todo, mut seen) = (std::collections::VecDeque::from([tip]), BTreeSet::new());
        while let Some(id) = todo.pop_front() {
            let Some((parents, subject)) = self.commits.get(id) else { continue };
            if !seen.insert(id) {
                continue;
            }
            change.count += 1;
            change.merges |= parents.len() > 1;
            if change.commits.len() < MAX_NAMED {
                change.commits.push(Commit { id: id.to_owned(), subject: subject.clone() });
            }
            if let Some(held) = held.get(id).filter(|_| change.held.len() < MAX_HELD) {
                change.held.extend(held.iter().cloned());
            }
            todo.extend(parents.iter().map(String::as_str));
        }
    }
}

/// Reads what `diff-tree --raw -z` printed.
pub(super) fn raws(output: &[u8]) -> Vec<Raw> {
    let (mut found, mut tokens) = (Vec::new(), output.split(|byte| *byte == 0));
    while let Some(token) = tokens.next() {
        if token.starts_with(b":") {
            found.extend(raw(token, tokens.next().unwrap_or_default()));
        }
    }
    found
}

/// One change: a colon for each parent, modes of the parents and the new one, objects likewise.
fn raw(token: &[u8], path: &[u8]) -> Option<Raw> {
    let text = std::str::from_utf8(token).ok()?;
    let parents = text.bytes().take_while(|byte| *byte == b':').count();
    let fields: Vec<&str> = text[parents..].split(' ').collect();
    let mode = (*fields.get(parents)?).to_owned();
    let id = (*fields.get(2 * parents + 1)?).to_owned();
    let path = PathBuf::from(OsStr::from_bytes(path));
    Some(Raw { path, mode, id })
}

/// Reads what `ls-tree -r -z` printed.
pub(super) fn tree(output: &[u8]) -> Tree {
    let line = |line: &[u8]| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let mut fields = std::str::from_utf8(&line[..tab]).ok()?.split(' ');
        let (mode, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        let path = PathBuf::from(OsStr::from_bytes(&line[tab + 1..]));
        Some((path, (mode.to_owned(), id.to_owned())))
    };
    output.split(|byte| *byte == 0).filter_map(line).collect()
}

/// Returns true when an index differs from a tree.
pub(super) fn differs(index: &Index, tree: &Tree) -> bool {
    let same = |(path, stage): &(Vec<u8>, u8), entry: &Entry| {
        let there = tree.get(&PathBuf::from(OsStr::from_bytes(path)));
        let mode = format!("{:06o}", entry.mode);
        *stage == 0 && there.is_some_and(|(other, id)| *other == mode && *id == entry.id)
    };
    index.entries.len() != tree.len() || !index.entries.iter().all(|(key, entry)| same(key, entry))
}
