use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use super::*;

/// Base and layers in a temporary directory.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.0.path().join("base")).unwrap();
        place
    }

    /// Adds entries to a layer: `dir/`, `file`, `!gone`, `%gone by attribute`, `=opaque`, `@link`.
    fn with(self, layer: &str, names: &[&str]) -> Self {
        let root = self.0.path().join(layer);
        fs::create_dir_all(&root).unwrap();
        for name in names {
            let path = root.join(name.trim_start_matches(['!', '%', '=', '@']));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match name.as_bytes()[0] {
                b'!' => {
                    rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), 0)
                        .unwrap();
                }
                b'%' => {
                    fs::write(&path, "").unwrap();
                    let none = XattrFlags::empty();
                    rustix::fs::setxattr(&path, "user.overlay.whiteout", b"", none).unwrap();
                }
                b'=' => {
                    fs::create_dir_all(&path).unwrap();
                    let none = XattrFlags::empty();
                    rustix::fs::setxattr(&path, "user.overlay.opaque", b"y", none).unwrap();
                }
                b'@' => symlink("/etc/passwd", &path).unwrap(),
                _ if name.ends_with('/') => fs::create_dir_all(&path).unwrap(),
                _ => fs::write(&path, layer).unwrap(),
            }
        }
        self
    }

    fn stack(&self, layers: &[&str]) -> Stack {
        let layers: Vec<_> = layers.iter().map(|name| self.0.path().join(name)).collect();
        Stack::open(&layers, &self.0.path().join("base")).unwrap()
    }
}

/// Returns the entries in the notation of [`Place::with`].
fn told(stack: &Stack) -> Vec<String> {
    let entries = stack.entries().unwrap();
    let tell = |LayerEntry { path, node }: &LayerEntry| {
        let path = path.as_path().display();
        match node {
            Node::Gone => format!("!{path}"),
            Node::Dir { opaque: true, .. } => format!("={path}"),
            Node::Dir { .. } => format!("{path}/"),
            Node::File { .. } => path.to_string(),
            Node::Symlink { .. } => format!("@{path}"),
            Node::Special { .. } => format!("?{path}"),
        }
    };
    entries.iter().map(tell).collect()
}

#[test]
fn entries_merge_when_several_layers_have_a_directory() {
    let place = Place::new()
        .with("base", &["d/b", "d/c", "gone", "o/x", "f"])
        .with("0", &["d/a", "d/new", "!gone", "@l", "d-e"])
        .with("1", &["!d/new", "%d/b", "d/a", "=o", "o/y"]);
    assert_eq!(told(&place.stack(&["0"])), ["d/", "d/a", "d/new", "d-e", "!gone", "@l"]);
    assert_eq!(
        told(&place.stack(&["0", "1"])),
        // `d/new` existed only in a layer, so it is not reported as deleted.
        ["d/", "d/a", "!d/b", "d-e", "!gone", "@l", "=o", "o/y"],
    );
}

#[test]
fn a_directory_is_opaque_when_a_layer_below_ended_what_it_stands_on() {
    let place = Place::new()
        .with("base", &["a/x", "b/x", "c/x"])
        .with("0", &["!a", "b", "=c", "c/y"])
        .with("1", &["a/z", "b/z", "c/z"]);
    let expected = ["=a", "a/z", "=b", "b/z", "=c", "c/y", "c/z"];
    assert_eq!(told(&place.stack(&["0", "1"])), expected);
}

#[test]
fn open_reads_the_topmost_file_and_never_through_a_link() {
    let place = Place::new()
        .with("base", &["f"])
        .with("0", &["f", "d/g", "e/h", "@l"])
        .with("1", &["f", "=e", "@d"]);
    let stack = place.stack(&["0", "1"]);
    let read = |path: &str| {
        let mut text = String::new();
        let path = RelPath::new(path).unwrap();
        stack.open(&path).map(|mut file| file.read_to_string(&mut text).unwrap()).map(|_| text)
    };
    assert_eq!(read("f").unwrap(), "1");
    for (why, path) in [
        ("a link took the directory's place", "d/g"),
        ("the directory is opaque above", "e/h"),
        ("a link", "l"),
        ("a directory", "e"),
        ("nothing", "nothing"),
    ] {
        assert!(read(path).is_err(), "{why}");
    }
}

#[test]
fn entries_are_read_when_the_tree_is_deeper_than_a_path_can_be_long() {
    let place = Place::new().with("0", &[]);
    let name = "n".repeat(250);
    let flags = rustix::fs::OFlags::DIRECTORY;
    let mut here = rustix::fs::open(place.0.path().join("0"), flags, Mode::empty()).unwrap();
    for _ in 0..30 {
        rustix::fs::mkdirat(&here, &name, Mode::from_raw_mode(0o755)).unwrap();
        here = rustix::fs::openat(&here, &name, flags, Mode::empty()).unwrap();
    }
    let create = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    drop(rustix::fs::openat(&here, "leaf", create, Mode::from_raw_mode(0o600)).unwrap());
    let stack = place.stack(&["0"]);
    let entries = stack.entries().unwrap();
    assert_eq!(entries.len(), 31);
    assert!(stack.open(&entries[30].path).is_ok());
}

#[test]
fn xattrs_leave_out_what_the_kernel_keeps_for_itself() {
    let place = Place::new().with("0", &["f"]);
    let file = place.0.path().join("0/f");
    let none = XattrFlags::empty();
    for name in ["user.mine", "user.overlay.origin", "user.overlay.overlay.opaque"] {
        rustix::fs::setxattr(&file, name, b"1", none).unwrap();
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut names = place.stack(&["0"]).xattrs(&RelPath::new("f").unwrap()).unwrap();
    names.retain(|name| name.as_bytes().starts_with(b"user."));
    names.sort();
    assert_eq!(names, ["user.mine", "user.overlay.opaque"]);
}

#[test]
fn flatten_writes_down_what_the_stack_shows() {
    let place = Place::new()
        .with("base", &["a/x", "b/x", "gone", "d/b", "o/x"])
        .with("0", &["!a", "!gone", "d/a", "d/new", "=o", "o/x", "@l"])
        .with("1", &["a/z", "!d/new", "%d/b", "o/y", "!o/x"])
        .with("flat", &[]);
    let layers = place.0.path().join("0");
    fs::hard_link(layers.join("d/a"), layers.join("d/a2")).unwrap();
    rustix::fs::setxattr(layers.join("d/a"), "user.mine", b"1", XattrFlags::empty()).unwrap();
    fs::set_permissions(layers.join("d"), fs::Permissions::from_mode(0o750)).unwrap();

    let stack = place.stack(&["0", "1"]);
    super::super::flatten(&stack, &place.0.path().join("flat")).unwrap();
    let flat = place.stack(&["flat"]);
    assert_eq!(told(&flat), told(&stack));
    let metas = |stack: &Stack| {
        let entries = stack.entries().unwrap();
        let meta = |entry: LayerEntry| match entry.node {
            Node::Gone => None,
            Node::Dir { meta, .. } => Some((meta.mode, meta.mtime, 0)),
            Node::File { meta, .. } | Node::Symlink { meta, .. } | Node::Special { meta } => {
                Some((meta.mode, meta.mtime, meta.links))
            }
        };
        entries.into_iter().map(meta).collect::<Vec<_>>()
    };
    assert_eq!(metas(&flat), metas(&stack));
    let names = flat.xattrs(&RelPath::new("d/a").unwrap()).unwrap();
    assert!(names.iter().any(|name| name == "user.mine"));
}
