//! Parsers for the output of `git log`, `git diff-tree` and `git ls-tree`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::index::{Index, IndexEntry};

/// Separator of the fields of a commit.
const MARK: char = '\u{2}';

/// Command that lists commits with the files that each changes. For a merge, these are the files that differ
/// from all parents.
pub(crate) const LOG_COMMAND: [&str; 14] = [
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

/// Mode and object of each file of a tree.
pub(crate) type Tree = BTreeMap<PathBuf, (String, String)>;

/// Changed file of a commit, or a changed entry of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedFile {
    pub(crate) path: PathBuf,
    /// New mode, in octal; zeros if the file was removed.
    pub(crate) mode: String,
    /// New object; empty if an entry of an index was removed.
    pub(crate) id: String,
}

impl ChangedFile {
    pub(crate) fn of_index(path: &[u8], entry: Option<&IndexEntry>) -> Self {
        let path = PathBuf::from(OsStr::from_bytes(path));
        match entry {
            Some(entry) => Self { path, mode: format!("{:06o}", entry.mode), id: entry.id.clone() },
            None => Self { path, mode: "000000".into(), id: String::new() },
        }
    }
}

/// Commit of a log.
#[derive(Debug)]
pub(crate) struct LoggedCommit {
    pub(crate) parents: Vec<String>,
    /// First line of the message.
    pub(crate) subject: String,
}

/// Commits that [`LOG_COMMAND`] listed.
#[derive(Debug, Default)]
pub(crate) struct Log {
    commits: BTreeMap<String, LoggedCommit>,
    /// Files that each commit changes.
    pub(crate) changes: BTreeMap<String, Vec<ChangedFile>>,
}

impl Log {
    pub(crate) fn parse(output: &[u8]) -> Self {
        let (mut log, mut last) = (Self::default(), String::new());
        let mut tokens = output.split(|byte| *byte == 0);
        while let Some(token) = tokens.next() {
            let token = token.strip_prefix(b"\n").unwrap_or(token);
            if token.starts_with(b":") {
                let file = changed_file(token, tokens.next().unwrap_or_default());
                log.changes.entry(last.clone()).or_default().extend(file);
            } else if token.starts_with(&[MARK as u8]) {
                let text = String::from_utf8_lossy(token).into_owned();
                let mut fields = text.splitn(4, MARK).skip(1).map(str::to_owned);
                last = fields.next().unwrap_or_default();
                let parents = fields.next().unwrap_or_default();
                let parents = parents.split(' ').filter(|id| !id.is_empty());
                let parents = parents.map(str::to_owned).collect();
                let subject = fields.next().unwrap_or_default();
                log.commits.insert(last.clone(), LoggedCommit { parents, subject });
            }
        }
        log
    }

    /// Returns the commits that can be reached from `tip`, near ones first.
    pub(crate) fn reachable<'l>(&'l self, tip: &'l str) -> Vec<(&'l str, &'l LoggedCommit)> {
        let (mut todo, mut seen) = (VecDeque::from([tip]), BTreeSet::new());
        let mut found = Vec::new();
        while let Some(id) = todo.pop_front() {
            let Some(commit) = self.commits.get(id) else { continue };
            if seen.insert(id) {
                found.push((id, commit));
                todo.extend(commit.parents.iter().map(String::as_str));
            }
        }
        found
    }
}

/// Parses the output of `diff-tree --raw -z`.
pub(crate) fn changed_files(output: &[u8]) -> Vec<ChangedFile> {
    let (mut found, mut tokens) = (Vec::new(), output.split(|byte| *byte == 0));
    while let Some(token) = tokens.next() {
        if token.starts_with(b":") {
            found.extend(changed_file(token, tokens.next().unwrap_or_default()));
        }
    }
    found
}

/// Parses one change: a colon for each parent, modes of the parents and the new one, objects likewise.
fn changed_file(token: &[u8], path: &[u8]) -> Option<ChangedFile> {
    let text = std::str::from_utf8(token).ok()?;
    let parents = text.bytes().take_while(|byte| *byte == b':').count();
    let fields: Vec<&str> = text[parents..].split(' ').collect();
    let mode = (*fields.get(parents)?).to_owned();
    let id = (*fields.get(2 * parents + 1)?).to_owned();
    let path = PathBuf::from(OsStr::from_bytes(path));
    Some(ChangedFile { path, mode, id })
}

/// Parses the output of `ls-tree -r -z`.
pub(crate) fn tree(output: &[u8]) -> Tree {
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
pub(crate) fn differs(index: &Index, tree: &Tree) -> bool {
    let same = |(path, stage): &(Vec<u8>, u8), entry: &IndexEntry| {
        let there = tree.get(&PathBuf::from(OsStr::from_bytes(path)));
        let mode = format!("{:06o}", entry.mode);
        *stage == 0 && there.is_some_and(|(other, id)| *other == mode && *id == entry.id)
    };
    index.entries.len() != tree.len() || !index.entries.iter().all(|(key, entry)| same(key, entry))
}
