//! Compares the view with a model in memory: random changes over a base, interleaved with remounts, killed mounts and
//! new layers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rustix::io::Errno;
use sandbox_layers::store::{Kind, Store};
use sandbox_layers::tree::{Attr, Caller, Change, Make, ROOT, Rename, Tree, open_base};

const ME: Caller = Caller { uid: 7, gid: 8 };

/// Entry of the model. Files are numbered, so that hard links share a number.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Dir,
    File(usize),
    Link(String),
}

#[derive(Debug, Clone, Default)]
struct Model {
    paths: BTreeMap<PathBuf, Entry>,
    contents: Vec<Vec<u8>>,
}

impl Model {
    fn is_dir(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || self.paths.get(path) == Some(&Entry::Dir)
    }

    fn parent_is_dir(&self, path: &Path) -> bool {
        path.parent().is_some_and(|parent| self.is_dir(parent))
    }

    fn below(&self, path: &Path) -> Vec<PathBuf> {
        let below = |other: &&PathBuf| other.starts_with(path) && other.as_path() != path;
        self.paths.keys().filter(below).cloned().collect()
    }

    fn links(&self, file: usize) -> usize {
        self.paths.values().filter(|entry| **entry == Entry::File(file)).count()
    }

    fn add(&mut self, path: &Path, entry: Entry) -> Result<(), Errno> {
        if !self.parent_is_dir(path) {
            return Err(Errno::NOENT);
        }
        if self.paths.contains_key(path) {
            return Err(Errno::EXIST);
        }
        self.paths.insert(path.to_owned(), entry);
        Ok(())
    }

    fn file(&self, path: &Path) -> Result<usize, Errno> {
        match self.paths.get(path) {
            Some(Entry::File(file)) => Ok(*file),
            Some(Entry::Dir) => Err(Errno::ISDIR),
            Some(Entry::Link(_)) => Err(Errno::INVAL),
            None => Err(Errno::NOENT),
        }
    }

    fn apply(&mut self, op: &Op) -> Result<(), Errno> {
        match op {
            Op::Mkdir(path) => self.add(path, Entry::Dir),
            Op::Symlink(path) => self.add(path, Entry::Link("target".into())),
            Op::Create(path, bytes) => {
                let file = self.contents.len();
                self.add(path, Entry::File(file))?;
                self.contents.push(bytes.content());
                Ok(())
            }
            Op::Write(path, offset, bytes) => {
                let file = self.file(path)?;
                let (bytes, content) = (bytes.content(), &mut self.contents[file]);
                let end = offset + bytes.len();
                content.resize(content.len().max(end), 0);
                content[*offset..end].copy_from_slice(&bytes);
                Ok(())
            }
            Op::Truncate(path, size) => {
                let file = self.file(path)?;
                self.contents[file].resize(*size, 0);
                Ok(())
            }
            Op::Unlink(path) => match self.paths.get(path) {
                None => Err(Errno::NOENT),
                Some(Entry::Dir) => Err(Errno::ISDIR),
                Some(_) => self.paths.remove(path).map(drop).ok_or(Errno::NOENT),
            },
            Op::Rmdir(path) => match self.paths.get(path) {
                None => Err(Errno::NOENT),
                Some(Entry::Dir) if self.below(path).is_empty() => {
                    self.paths.remove(path).map(drop).ok_or(Errno::NOENT)
                }
                Some(Entry::Dir) => Err(Errno::NOTEMPTY),
                Some(_) => Err(Errno::NOTDIR),
            },
            Op::Hardlink(from, to) => {
                let entry = self.paths.get(from).cloned().ok_or(Errno::NOENT)?;
                // Only files, because the test compares their link counts.
                let Entry::File(_) = entry else { return Err(Errno::PERM) };
                self.add(to, entry)
            }
            Op::Rename(from, to, how) => self.rename(from, to, *how),
            Op::Chmod(path, _) => self.paths.get(path).map(drop).ok_or(Errno::NOENT),
            Op::Remount | Op::Kill | Op::Stack => Ok(()),
        }
    }

    fn rename(&mut self, from: &Path, to: &Path, how: Rename) -> Result<(), Errno> {
        let entry = self.paths.get(from).cloned().ok_or(Errno::NOENT)?;
        if !self.parent_is_dir(to) {
            return Err(Errno::NOENT);
        }
        let target = self.paths.get(to).cloned();
        if how == Rename::Exchange && target.is_some() {
            if from == to {
                return Ok(());
            }
            self.shift(from, Path::new("\u{1}"));
            self.shift(to, from);
            self.shift(Path::new("\u{1}"), to);
            return Ok(());
        }
        match (&entry, &target) {
            (_, Some(_)) if how == Rename::NoReplace => return Err(Errno::EXIST),
            (_, None) if how == Rename::Exchange => return Err(Errno::NOENT),
            (Entry::File(one), Some(Entry::File(other))) if one == other => return Ok(()),
            _ if from == to => return Ok(()),
            (Entry::Dir, Some(Entry::Dir)) if !self.below(to).is_empty() => {
                return Err(Errno::NOTEMPTY);
            }
            (Entry::Dir, Some(Entry::Dir)) | (_, None) => {}
            (Entry::Dir, Some(_)) => return Err(Errno::NOTDIR),
            (_, Some(Entry::Dir)) => return Err(Errno::ISDIR),
            _ => {}
        }
        self.shift(from, to);
        Ok(())
    }

    fn shift(&mut self, from: &Path, to: &Path) {
        let mut moved = self.below(from);
        moved.push(from.to_owned());
        for old in moved {
            let rest = old.strip_prefix(from).unwrap();
            let new = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
            let entry = self.paths.remove(&old).unwrap();
            self.paths.insert(new, entry);
        }
    }
}

/// Content by length and seed: small sizes, and sizes that become loose files.
#[derive(Debug, Clone, Copy)]
struct Bytes {
    seed: u8,
    length: usize,
}

impl Bytes {
    fn content(self) -> Vec<u8> {
        (0..self.length).map(|at| self.seed.wrapping_add(at.to_le_bytes()[0])).collect()
    }
}

#[derive(Debug, Clone)]
enum Op {
    Mkdir(PathBuf),
    Symlink(PathBuf),
    Create(PathBuf, Bytes),
    Write(PathBuf, usize, Bytes),
    Truncate(PathBuf, usize),
    Unlink(PathBuf),
    Rmdir(PathBuf),
    Hardlink(PathBuf, PathBuf),
    Rename(PathBuf, PathBuf, Rename),
    Chmod(PathBuf, u32),
    Remount,
    Kill,
    Stack,
}

fn path() -> impl Strategy<Value = PathBuf> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4)
        .prop_map(|names| names.iter().collect())
}

fn bytes() -> impl Strategy<Value = Bytes> {
    let length =
        prop_oneof![8 => 0..3000_usize, 1 => 65_000..140_000_usize, 1 => 200_000..200_010_usize];
    (any::<u8>(), length).prop_map(|(seed, length)| Bytes { seed, length })
}

fn op() -> impl Strategy<Value = Op> {
    let how = prop::sample::select(vec![
        Rename::Replace,
        Rename::Replace,
        Rename::NoReplace,
        Rename::Exchange,
    ]);
    prop_oneof![
        4 => path().prop_map(Op::Mkdir),
        1 => path().prop_map(Op::Symlink),
        5 => (path(), bytes()).prop_map(|(path, bytes)| Op::Create(path, bytes)),
        4 => (path(), 0..5000_usize, bytes()).prop_map(|(path, at, bytes)| Op::Write(path, at, bytes)),
        2 => (path(), prop_oneof![0..4000_usize, 60_000..150_000_usize])
            .prop_map(|(path, size)| Op::Truncate(path, size)),
        4 => path().prop_map(Op::Unlink),
        4 => path().prop_map(Op::Rmdir),
        3 => (path(), path()).prop_map(|(from, to)| Op::Hardlink(from, to)),
        8 => (path(), path(), how).prop_map(|(from, to, how)| Op::Rename(from, to, how)),
        2 => (path(), 0..0o777_u32).prop_map(|(path, mode)| Op::Chmod(path, mode)),
        1 => Just(Op::Remount),
        1 => Just(Op::Kill),
        1 => Just(Op::Stack),
    ]
}

/// View under test.
struct View {
    tree: Option<Tree>,
    dir: tempfile::TempDir,
    layers: usize,
}

impl View {
    fn new() -> (Self, Model) {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("base");
        let mut model = Model::default();
        fs::create_dir_all(base.join("a/b/c")).unwrap();
        fs::create_dir_all(base.join("b/a")).unwrap();
        for dir in ["a", "a/b", "a/b/c", "b", "b/a"] {
            model.paths.insert(dir.into(), Entry::Dir);
        }
        for (file, length) in [("a/a", 10), ("a/b/a", 5000), ("b/c", 0), ("a/c", 200_000)] {
            let bytes = Bytes { seed: 1, length }.content();
            fs::write(base.join(file), &bytes).unwrap();
            model.paths.insert(file.into(), Entry::File(model.contents.len()));
            model.contents.push(bytes);
        }
        // One file of the base with two names.
        fs::hard_link(base.join("a/a"), base.join("b/b")).unwrap();
        model.paths.insert("b/b".into(), Entry::File(0));
        drop(Store::create(&dir.path().join("0"), Some(&base)).unwrap());
        let mut view = Self { tree: None, dir, layers: 1 };
        view.mount();
        (view, model)
    }

    fn mount(&mut self) {
        let store = Store::open(&self.layer(self.layers - 1)).unwrap();
        let base = open_base(store.base().unwrap()).unwrap();
        self.tree = Some(Tree::new(store, Some(base)).unwrap());
    }

    fn layer(&self, number: usize) -> PathBuf {
        self.dir.path().join(number.to_string())
    }

    fn tree(&self) -> &Tree {
        self.tree.as_ref().unwrap()
    }

    /// Returns the inode number of a path, looked up as the kernel does.
    fn id(&self, path: &Path) -> Result<u64, Errno> {
        let mut id = ROOT;
        for name in path {
            let attr = self.tree().lookup(id, name)?.ok_or(Errno::NOENT)?;
            id = attr.id;
        }
        Ok(id)
    }

    fn place<'a>(&self, path: &'a Path) -> Result<(u64, &'a OsStr), Errno> {
        let parent = self.id(path.parent().unwrap())?;
        if self.tree().attr(parent)?.inode.kind() != Kind::Dir {
            return Err(Errno::NOENT);
        }
        Ok((parent, path.file_name().unwrap()))
    }

    fn make(&self, path: &Path, mode: u32, target: Option<&OsStr>) -> Result<Attr, Errno> {
        let (parent, name) = self.place(path)?;
        self.tree().make(parent, name, Make { mode, rdev: 0, target }, ME)
    }

    fn write_and_close(&self, id: u64, offset: usize, bytes: Bytes) -> Result<(), Errno> {
        for (index, part) in bytes.content().chunks(100_000).enumerate() {
            self.tree().write(id, (offset + index * 100_000) as u64, part, true)?;
        }
        self.tree().flush(id)?;
        self.tree().release(id);
        Ok(())
    }

    fn apply(&mut self, op: &Op) -> Result<(), Errno> {
        match op {
            Op::Mkdir(path) => self.make(path, libc::S_IFDIR | 0o755, None).map(drop),
            Op::Symlink(path) => {
                self.make(path, libc::S_IFLNK | 0o777, Some("target".as_ref())).map(drop)
            }
            Op::Create(path, bytes) => {
                let (parent, name) = self.place(path)?;
                let id = self.tree().create(parent, name, 0o644, ME)?.id;
                self.write_and_close(id, 0, *bytes)
            }
            Op::Write(path, offset, bytes) => {
                let id = self.id(path)?;
                self.tree().open(id)?;
                // The kernel leaves the length alone when nothing is written. The model would extend it.
                let change =
                    Change { size: Some((*offset).max(self.size(id)) as u64), ..Change::default() };
                self.tree().set_attr(id, &change, ME)?;
                self.write_and_close(id, *offset, *bytes)
            }
            Op::Truncate(path, size) => {
                let change = Change { size: Some(*size as u64), ..Change::default() };
                let id = self.id(path)?;
                self.tree().set_attr(id, &change, ME).map(drop)
            }
            Op::Unlink(path) => {
                self.place(path).and_then(|(id, name)| self.tree().unlink(id, name))
            }
            Op::Rmdir(path) => self.place(path).and_then(|(id, name)| self.tree().rmdir(id, name)),
            Op::Hardlink(from, to) => {
                let id = self.id(from)?;
                if self.tree().attr(id)?.inode.kind() != Kind::File {
                    return Err(Errno::PERM);
                }
                let (parent, name) = self.place(to)?;
                self.tree().link(id, parent, name).map(drop)
            }
            Op::Rename(from, to, how) => {
                let (from, to) = (self.place(from)?, self.place(to)?);
                self.tree().rename(from, to, *how)
            }
            Op::Chmod(path, mode) => {
                let change = Change { mode: Some(*mode), ..Change::default() };
                let id = self.id(path)?;
                self.tree().set_attr(id, &change, ME).map(drop)
            }
            Op::Remount | Op::Stack | Op::Kill => {
                self.end(op);
                self.mount();
                Ok(())
            }
        }
    }

    /// Ends the mount in one of three ways.
    fn end(&mut self, how: &Op) {
        // Closing any file makes all earlier changes survive a kill.
        self.tree().flush(ROOT).unwrap();
        let tree = self.tree.take().unwrap();
        if !matches!(how, Op::Kill) {
            tree.close().unwrap();
        }
        if matches!(how, Op::Stack) {
            let below = self.layer(self.layers - 1);
            drop(Store::create(&self.layer(self.layers), Some(&below)).unwrap());
            self.layers += 1;
        }
    }

    fn size(&self, id: u64) -> usize {
        usize::try_from(self.tree().attr(id).unwrap().inode.size).unwrap()
    }

    /// Collects all entries in the form of the model, with contents instead of numbers.
    fn walk(&self, id: u64, path: &Path, found: &mut BTreeMap<PathBuf, Seen>) {
        let items = self.tree().items(id, 0).unwrap();
        for item in items.iter().skip(2) {
            let path = path.join(&item.name);
            let attr = self.tree().lookup(id, &item.name).unwrap().expect("a listed name is there");
            assert_eq!((item.id, item.kind), (attr.id, attr.inode.kind()), "{}", path.display());
            let seen = match item.kind {
                Kind::Dir => Seen::Dir,
                Kind::Symlink => {
                    Seen::Link(self.tree().target(item.id).unwrap().into_string().unwrap())
                }
                _ => {
                    self.tree().open(item.id).unwrap();
                    let mut content = vec![0; self.size(item.id) + 1];
                    let length = self.tree().read(item.id, 0, &mut content).unwrap();
                    content.truncate(length);
                    self.tree().release(item.id);
                    Seen::File(content, attr.inode.nlink as usize)
                }
            };
            assert!(found.insert(path.clone(), seen).is_none(), "{} twice", path.display());
            if item.kind == Kind::Dir {
                self.walk(item.id, &path, found);
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Seen {
    Dir,
    File(Vec<u8>, usize),
    Link(String),
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dir => write!(f, "directory"),
            Self::Link(target) => write!(f, "link to {target}"),
            Self::File(content, links) => {
                let head = &content[..content.len().min(4)];
                write!(f, "{links} names, {} bytes {head:?}…", content.len())
            }
        }
    }
}

fn expected(model: &Model) -> BTreeMap<PathBuf, Seen> {
    let seen = |entry: &Entry| match entry {
        Entry::Dir => Seen::Dir,
        Entry::Link(target) => Seen::Link(target.clone()),
        Entry::File(file) => Seen::File(model.contents[*file].clone(), model.links(*file)),
    };
    model.paths.iter().map(|(path, entry)| (path.clone(), seen(entry))).collect()
}

/// Returns false for moving a directory into itself, which the kernel refuses without a request.
fn is_possible(op: &Op) -> bool {
    match op {
        Op::Rename(from, to, Rename::Exchange) => {
            from == to || !from.starts_with(to) && !to.starts_with(from)
        }
        Op::Rename(from, to, _) => from == to || !to.starts_with(from),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn the_view_is_what_the_model_says(ops in prop::collection::vec(op(), 1..40)) {
        let (mut view, mut model) = View::new();
        let before = walk_host(&view.dir.path().join("base"));
        for op in ops.iter().filter(|op| is_possible(op)) {
            let (ours, theirs) = (view.apply(op), model.apply(op));
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}: {:?}, the model {:?}", op, ours, theirs);
            let mut found = BTreeMap::new();
            view.walk(ROOT, Path::new(""), &mut found);
            prop_assert_eq!(&found, &expected(&model), "after {:?}", op);
        }
        view.apply(&Op::Remount).unwrap();
        let mut found = BTreeMap::new();
        view.walk(ROOT, Path::new(""), &mut found);
        prop_assert_eq!(&found, &expected(&model), "after the last remount");
        prop_assert_eq!(walk_host(&view.dir.path().join("base")), before, "the base has changed");
    }
}

fn walk_host(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.insert(path.clone(), Vec::new());
            found.extend(walk_host(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}
