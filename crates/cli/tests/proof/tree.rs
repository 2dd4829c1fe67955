//! A whole tree as a value: everything that two file systems must agree on.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Limit between times that a test sets and times that the kernel sets: 2020-01-01.
pub(crate) const LONG_AGO: i64 = 1_577_836_800;

/// Entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Type and permission bits.
    pub(crate) mode: u32,
    /// Owner and group.
    pub(crate) owner: (u32, u32),
    /// Link count of a file. Not for directories, where file systems differ.
    pub(crate) links: u64,
    /// Time of the last write, if it was set explicitly and not on a FIFO: the trees change at different times.
    pub(crate) mtime: Option<(i64, i64)>,
    /// A file's bytes or a link's target.
    pub(crate) content: Vec<u8>,
    /// Extended attributes of the user's namespace.
    pub(crate) xattrs: BTreeMap<OsString, Vec<u8>>,
    /// First of its names, to compare hard links.
    pub(crate) twin: Option<PathBuf>,
}

pub(crate) type Tree = BTreeMap<PathBuf, Found>;

/// Reads everything below `root`, and `root` itself as the empty path.
#[track_caller]
pub(crate) fn read(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut first = BTreeMap::new();
    look(root, Path::new(""), &mut tree, &mut first);
    tree
}

/// Returns the inode numbers of everything below `root`.
pub(crate) fn inodes(root: &Path, tree: &Tree) -> BTreeMap<PathBuf, u64> {
    let number = |path: &PathBuf| fs::symlink_metadata(root.join(path)).unwrap().ino();
    tree.keys().map(|path| (path.clone(), number(path))).collect()
}

#[track_caller]
fn look(root: &Path, path: &Path, tree: &mut Tree, first: &mut BTreeMap<u64, PathBuf>) {
    let full = if path.as_os_str().is_empty() { root.to_owned() } else { root.join(path) };
    let context = |what: &str| format!("{what} `{}`", path.display());
    let meta =
        fs::symlink_metadata(&full).unwrap_or_else(|error| panic!("{}: {error}", context("stat")));
    let kind = meta.file_type();
    let bytes = if kind.is_file() {
        fs::read(&full).unwrap_or_else(|error| panic!("{}: {error}", context("read")))
    } else if kind.is_symlink() {
        fs::read_link(&full).unwrap().into_os_string().into_vec()
    } else {
        Vec::new()
    };
    if kind.is_file() || kind.is_symlink() {
        assert_eq!(meta.len(), bytes.len() as u64, "{}", context("length of"));
    }
    let links = if kind.is_dir() { 0 } else { meta.nlink() };
    let twin =
        (links > 1).then(|| first.entry(meta.ino()).or_insert_with(|| path.to_owned()).clone());
    // A write into a FIFO changes its times only on some file systems.
    let set = meta.mtime() < LONG_AGO && !kind.is_fifo();
    let mtime = set.then(|| (meta.mtime(), meta.mtime_nsec()));
    let owner = (meta.uid(), meta.gid());
    let xattrs = if kind.is_symlink() { BTreeMap::new() } else { xattrs(&full) };
    tree.insert(
        path.to_owned(),
        Found { mode: meta.mode(), owner, links, mtime, content: bytes, xattrs, twin },
    );
    if kind.is_dir() {
        let mut names = Vec::new();
        for entry in
            fs::read_dir(&full).unwrap_or_else(|error| panic!("{}: {error}", context("list")))
        {
            let entry = entry.unwrap_or_else(|error| panic!("{}: {error}", context("list")));
            let inode = fs::symlink_metadata(entry.path()).map(|meta| meta.ino());
            let listed = path.join(entry.file_name());
            assert_eq!(
                inode.ok(),
                Some(entry.ino()),
                "inode of `{}` in its directory",
                listed.display()
            );
            names.push(entry.file_name());
        }
        names.sort();
        assert!(
            names.windows(2).all(|two| two[0] != two[1]),
            "{} twice: {names:?}",
            context("listed")
        );
        for name in names {
            look(root, &path.join(name), tree, first);
        }
    }
}

fn xattrs(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut names = vec![0; 65536];
    let length = rustix::fs::llistxattr(path, &mut names[..])
        .unwrap_or_else(|error| panic!("xattrs of `{}`: {error}", path.display()));
    let names = names[..length].split(|byte| *byte == 0);
    let user = names.filter(|name| name.starts_with(b"user."));
    user.map(|name| {
        let name = std::ffi::OsStr::from_bytes(name).to_owned();
        let mut value = vec![0; 65536];
        let length = rustix::fs::lgetxattr(path, &*name, &mut value[..]).unwrap();
        value.truncate(length);
        (name, value)
    })
    .collect()
}

/// Removes the information about which names are one file.
pub(crate) fn without_twins(tree: &Tree) -> Tree {
    tree.iter().map(|(path, found)| (path.clone(), Found { twin: None, ..found.clone() })).collect()
}

/// Describes the differences between two trees; empty if they are equal.
pub(crate) fn difference(expected: &Tree, found: &Tree) -> Option<String> {
    let mut text = String::new();
    for path in expected.keys().chain(found.keys().filter(|path| !expected.contains_key(*path))) {
        let (plain, engine) = (expected.get(path), found.get(path));
        if plain != engine {
            let _ = writeln!(
                text,
                "`{}`\n  plain:  {}\n  engine: {}",
                path.display(),
                brief(plain),
                brief(engine)
            );
        }
    }
    (!text.is_empty()).then_some(text)
}

fn brief(found: Option<&Found>) -> String {
    let Some(found) = found else { return "nothing".into() };
    let start = found.content[..found.content.len().min(24)].escape_ascii();
    format!(
        "{:o} owner {:?} links {} mtime {:?} {} bytes, hash {:x}, {start}… xattrs {:?} twin {:?}",
        found.mode,
        found.owner,
        found.links,
        found.mtime,
        found.content.len(),
        hash(&found.content),
        found.xattrs,
        found.twin,
    )
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}
