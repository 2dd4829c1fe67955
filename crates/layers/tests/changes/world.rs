//! Real directory with a layer that a test fills.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Cursor, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use sandbox_layers::apply::{
    self, ApplyError, Base, Changed, Journal, Plan, RecordOrigin, Target, Undone, Wish,
};
use sandbox_layers::diff::{self, Changes, Digest, Origin, Origins, Past, View};
use sandbox_layers::host::{HostTree, Kind};
use sandbox_layers::{Layer, LayerEntry, LayerError, Meta, Node, RelPath};
use tempfile::TempDir;

/// Layer in memory.
#[derive(Debug, Default, Clone)]
pub(crate) struct Memory {
    pub(crate) nodes: BTreeMap<RelPath, (Node, Vec<u8>)>,
    pub(crate) xattrs: BTreeMap<RelPath, Vec<OsString>>,
}

/// Base in memory.
#[derive(Debug, Default, Clone)]
pub(crate) struct Remembered(pub(crate) BTreeMap<RelPath, (Origin, Option<Vec<u8>>)>);

pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) layer: Memory,
    pub(crate) record: Remembered,
    state: TempDir,
}

pub(crate) fn at(path: &str) -> RelPath {
    RelPath::new(path).unwrap()
}

fn meta(mode: u32) -> Meta {
    Meta { mode, uid: 0, gid: 0, mtime: (0, 0), links: 1 }
}

impl Layer for Memory {
    fn entries(&self) -> Result<Vec<LayerEntry>, LayerError> {
        let entry = |(path, (node, _)): (&RelPath, &(Node, _))| LayerEntry {
            path: path.clone(),
            node: node.clone(),
        };
        Ok(self.nodes.iter().map(entry).collect())
    }

    fn open(&self, path: &RelPath) -> Result<Box<dyn Read + Send>, LayerError> {
        Ok(Box::new(Cursor::new(self.nodes[path].1.clone())))
    }

    fn xattrs(&self, path: &RelPath) -> Result<Vec<OsString>, LayerError> {
        Ok(self.xattrs.get(path).cloned().unwrap_or_default())
    }

    fn is_copy(&self, _: &RelPath) -> Result<bool, LayerError> {
        Ok(false)
    }
}

impl Memory {
    pub(crate) fn file(&mut self, path: &str, text: impl AsRef<[u8]>, mode: u32) {
        let text = text.as_ref().to_vec();
        let node = Node::File { meta: meta(mode), size: text.len() as u64 };
        self.nodes.insert(at(path), (node, text));
    }

    pub(crate) fn link(&mut self, path: &str, target: &str) {
        let node = Node::Symlink { meta: meta(0o777), target: target.into() };
        self.nodes.insert(at(path), (node, Vec::new()));
    }

    pub(crate) fn dir(&mut self, path: &str, opaque: bool) {
        self.nodes.insert(at(path), (Node::Dir { meta: meta(0o755), opaque }, Vec::new()));
    }

    pub(crate) fn gone(&mut self, path: &str) {
        self.nodes.insert(at(path), (Node::Gone, Vec::new()));
    }

    pub(crate) fn special(&mut self, path: &str, mode: u32) {
        self.nodes.insert(at(path), (Node::Special { meta: meta(mode) }, Vec::new()));
    }
}

impl Origins for Remembered {
    fn origin(&self, path: &RelPath) -> Result<Origin, LayerError> {
        Ok(self.0.get(path).map_or(Origin::Unknown, |(origin, _)| origin.clone()))
    }

    fn ancestor(&self, path: &RelPath) -> Result<Option<Vec<u8>>, LayerError> {
        Ok(self.0.get(path).and_then(|(_, kept)| kept.clone()))
    }
}

impl RecordOrigin for Remembered {
    fn set(
        &mut self,
        path: &RelPath,
        origin: &Origin,
        ancestor: Option<&[u8]>,
    ) -> Result<(), LayerError> {
        self.0.insert(path.clone(), (origin.clone(), ancestor.map(<[u8]>::to_vec)));
        Ok(())
    }
}

impl World {
    /// Runs `work` with everything that an apply needs.
    pub(crate) fn target<T>(&self, work: impl FnOnce(&Target<'_>) -> T) -> T {
        let host = self.host();
        let (layer, record) = (&self.layer, &self.record);
        work(&Target { number: 0, host: &host, layer, record, free: 1 << 40 })
    }

    pub(crate) fn plan(&self, wish: &Wish) -> Plan {
        let later = |path: &RelPath| {
            let special = path.as_path().components().any(|part| part.as_os_str() == ".hooks");
            special.then(|| "runs later".to_owned())
        };
        let changes = self.changes();
        self.target(|target| apply::plan(target, &changes.list, false, wish, &later).unwrap())
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.state.path().join("applied")
    }

    pub(crate) fn apply(&mut self, wish: &Wish) -> Result<Plan, ApplyError> {
        let plan = self.plan(wish);
        let mut record = self.record.clone();
        self.target(|target| {
            let targets = std::slice::from_ref(target);
            let mut journal = Journal::begin(&self.journal(), &plan, None, targets)?;
            let keep = &mut |journal: &Journal, base| keep(target.host, journal, base, &mut record);
            apply::perform(&mut journal, targets, &mut |_, _| (), keep)
        })?;
        self.record = record;
        Ok(plan)
    }

    pub(crate) fn undo(&mut self) -> Undone {
        let mut journal = Journal::list(&self.journal()).unwrap().pop().unwrap();
        let mut record = self.record.clone();
        let undone = self.target(|target| {
            let keep = &mut |journal: &Journal, base| keep(target.host, journal, base, &mut record);
            apply::undo(&mut journal, std::slice::from_ref(target), Changed::Stop, keep).unwrap()
        });
        self.record = record;
        undone
    }

    /// Returns every property of every file that an undo restores.
    pub(crate) fn tree(&self) -> Vec<String> {
        tree(&self.path(""))
    }

    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = tempfile::tempdir().unwrap();
        Self { dir, layer: Memory::default(), record: Remembered::default(), state }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    pub(crate) fn host(&self) -> HostTree {
        HostTree::open(&self.dir.path().canonicalize().unwrap()).unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>, mode: u32) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// Records the present base, as the end of a run does.
    pub(crate) fn record_base(&mut self) {
        let host = self.host();
        let mut paths: Vec<RelPath> = self.layer.nodes.keys().cloned().collect();
        let mut todo = paths.clone();
        while let Some(dir) = todo.pop() {
            let below = host.list(&dir).unwrap_or_default();
            let below: Vec<_> = below.iter().filter_map(|name| dir.join(name)).collect();
            paths.extend(below.clone());
            todo.extend(below);
        }
        for path in paths {
            let known = remember_one(&host, &path);
            self.record.0.insert(path, known);
        }
    }

    pub(crate) fn changes(&self) -> Changes {
        diff::compare(&self.layer, &self.host(), &self.record).unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let shown = |change: diff::Change| change.path.as_path().display().to_string();
        self.changes().list.into_iter().map(shown).collect()
    }

    pub(crate) fn patch(&self) -> Vec<u8> {
        let host = self.host();
        let view = View { layer: &self.layer, host: &host, record: &self.record };
        let mut out = Vec::new();
        for change in self.changes().list {
            diff::write_patch(&view, &change, &mut out).unwrap();
        }
        out
    }
}

fn remember_one(host: &HostTree, path: &RelPath) -> (Origin, Option<Vec<u8>>) {
    let Some(found) = host.stat(path).unwrap() else { return (Origin::Absent, None) };
    let bytes = match found.kind {
        Kind::File => {
            let mut bytes = Vec::new();
            host.open_file(path).unwrap().0.read_to_end(&mut bytes).unwrap();
            Some(bytes)
        }
        Kind::Symlink => Some(host.read_link(path).unwrap().into_encoded_bytes()),
        _ => None,
    };
    let past = Past {
        kind: found.kind,
        stamp: found.stamp,
        executable: found.is_executable(),
        digest: bytes.as_deref().map(Digest::of),
    };
    (Origin::There(past), bytes.filter(|bytes| !bytes.contains(&0)))
}

/// Records the base, as a session does.
pub(crate) fn keep(
    host: &HostTree,
    journal: &Journal,
    base: Base,
    record: &mut Remembered,
) -> Result<(), ApplyError> {
    match base {
        Base::New => apply::record_applied(journal, 0, host, record),
        Base::Old => apply::record_reverted(journal, 0, host, record),
    }
}

/// Returns path, type, mode, content or target, and time of everything below a directory.
pub(crate) fn tree(dir: &Path) -> Vec<String> {
    let (mut lines, mut todo) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(here) = todo.pop() {
        for entry in std::fs::read_dir(&here).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let content = if meta.is_symlink() {
                std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if meta.is_dir() {
                todo.push(path.clone());
                Vec::new()
            } else {
                std::fs::read(&path).unwrap()
            };
            let name = path.strip_prefix(dir).unwrap().display();
            let time = if meta.is_dir() { 0 } else { meta.mtime_nsec() + meta.mtime() };
            lines.push(format!("{name} {:o} {time} {:?}", meta.mode(), Digest::of(&content)));
        }
    }
    lines.sort();
    lines
}
