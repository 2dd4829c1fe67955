//! Patches, applied by the real git.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::world::World;

/// Returns the tree after `git apply` in a copy of the host's tree.
pub(crate) fn applied(world: &World) -> Vec<String> {
    let copy = tempfile::tempdir().unwrap();
    let source = format!("{}/.", world.path("").display());
    let done = Command::new("cp").args(["-a", &source]).arg(copy.path()).status().unwrap();
    assert!(done.success());
    if world.patch().is_empty() {
        return contents(copy.path());
    }
    let mut git = Command::new("git");
    git.args(["apply", "--whitespace=nowarn", "-"]).current_dir(copy.path());
    git.env("GIT_CEILING_DIRECTORIES", copy.path().parent().unwrap());
    let mut git =
        git.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("git is installed");
    git.stdin.take().unwrap().write_all(&world.patch()).unwrap();
    let output = git.wait_with_output().unwrap();
    let (said, patch) = (String::from_utf8_lossy(&output.stderr), world.patch());
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&patch));
    contents(copy.path())
}

/// Returns every file and link with its content and executable bit. Git does not track directories.
pub(crate) fn contents(dir: &Path) -> Vec<String> {
    let (mut lines, mut todo) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(here) = todo.pop() {
        for path in std::fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().path()) {
            let meta = path.symlink_metadata().unwrap();
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            if meta.is_dir() {
                todo.push(path);
            } else if meta.is_symlink() {
                lines.push(format!("l {name} {}", std::fs::read_link(&path).unwrap().display()));
            } else {
                let kind = if meta.mode() & 0o100 == 0 { "f" } else { "x" };
                lines.push(format!("{kind} {name} {:?}", std::fs::read(&path).unwrap()));
            }
        }
    }
    lines.sort();
    lines
}

#[test]
fn git_takes_the_patch_whatever_the_files_are() {
    let mut world = World::new();
    for (path, text) in [
        ("text", &b"1\n2\n3\n"[..]),
        ("no-newline", b"a\nb"),
        ("crlf", b"a\r\nb\r\n"),
        ("binary", b"\0\x01\x02"),
        ("goes", b"x\n"),
        ("goes-binary", b"\0"),
        ("empty-goes", b""),
        ("exec", b"#!/bin/sh\n"),
        ("dir/deep/goes", b"x\n"),
        ("becomes-link", b"x\n"),
    ] {
        world.write(path, text, 0o644);
    }
    world.link("link", "text");
    world.link("becomes-file", "text");
    let long: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let layer = &mut world.layer;
    layer.file("text", "1\ntwo\n3\n4\n", 0o644);
    layer.file("no-newline", "a\nb\n", 0o644);
    layer.file("crlf", "a\r\nc\r\n", 0o644);
    layer.file("binary", long, 0o644);
    layer.gone("goes");
    layer.gone("goes-binary");
    layer.gone("empty-goes");
    layer.file("exec", "#!/bin/sh\n", 0o755);
    layer.gone("dir");
    layer.link("becomes-link", "text");
    layer.link("link", "elsewhere");
    layer.file("becomes-file", "now a file", 0o644);
    layer.file("empty", "", 0o644);
    layer.file("new-exec", "#!/bin/sh\ntrue\n", 0o755);
    layer.file("with space", "x\n", 0o644);
    layer.file("t\tab \"quoted\" \\ gr\u{fc}n", "x\n", 0o644);
    layer.file("new\nline", "x", 0o644);
    layer.file("\u{1b}[31mred", "\u{1b}[31m\n", 0o644);
    layer.dir("sub", false);
    layer.file("sub/new", "\n\n\n", 0o644);
    world.record_base();
    let result = applied(&world);
    let names = &result;
    let has = |part: &str| names.iter().any(|line| line.starts_with(part));
    for there in ["x exec", "x new-exec", "l link elsewhere", "l becomes-link text"] {
        assert!(has(there), "{there}: {names:#?}");
    }
    for gone in ["f goes", "f dir", "f empty-goes"] {
        assert!(!has(gone), "{gone}: {names:#?}");
    }
    for there in ["f empty ", "f sub/new", "f with space", "f becomes-file"] {
        assert!(has(there), "{there}: {names:#?}");
    }
}

#[test]
fn a_large_text_is_patched_as_a_whole() {
    let mut world = World::new();
    let line = "0123456789abcdef\n".repeat(400_000);
    world.write("large", &line, 0o644);
    world.layer.file("large", format!("{line}end\n"), 0o644);
    world.record_base();
    assert!(world.patch().windows(7).any(|part| part == b"literal"));
    assert_eq!(applied(&world).len(), 1);
}
