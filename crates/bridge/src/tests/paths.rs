//! Words that are paths, and their paths on the host.

use std::ffi::OsStr;

use super::*;

#[test]
fn h8_parts_of_words_that_may_be_paths_are_found() {
    for (word, expected) in [
        ("/etc/shadow", &["/etc/shadow"][..]),
        ("--file=/etc/shadow", &["/etc/shadow"]),
        ("-f/etc/shadow", &["/etc/shadow"]),
        ("@/etc/shadow", &["/etc/shadow"]),
        ("a:/b,/c", &["/b", "/c"]),
        ("--opt=a=/b", &["/b"]),
        ("https://example.com/x", &[]),
        ("--url=https://example.com/x", &[]),
        ("file:///etc/shadow", &["///etc/shadow"]),
        ("[f-f]ile:///etc/shadow", &["///etc/shadow"]),
        ("{f}ile:///etc/shadow", &["///etc/shadow"]),
        ("plain", &[]),
        ("-v", &[]),
        ("--x", &[]),
    ] {
        let parts = argument::parts(word.as_bytes());
        let found: Vec<&str> = parts
            .iter()
            .filter(|part| part.absolute)
            .map(|part| &word[part.range.clone()])
            .collect();
        assert_eq!(found, expected, "{word}");
    }
}

#[test]
fn h8_paths_become_the_hosts_and_do_not_leave_what_is_shared() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let work = root.join("work");
    std::fs::create_dir_all(work.join("sub")).unwrap();
    std::fs::write(work.join("sub/file"), "").unwrap();
    std::fs::write(root.join("secret"), "").unwrap();
    for (name, target) in
        [("out", "../secret"), ("abs", "/etc/passwd"), ("dirout", ".."), ("in", "sub/file")]
    {
        std::os::unix::fs::symlink(target, work.join(name)).unwrap();
    }
    let mount = HostMount { container: "/workspace".into(), host: work.clone() };
    let shared_dirs = SharedDirs::open(&[mount]).unwrap();
    let cwd = shared_dirs.work_dir("/workspace/sub".as_ref()).unwrap();
    let host = |path: &str| format!("{}/{path}", work.display());
    for (word, expected) in [
        ("/workspace/sub/file", Some(host("sub/file"))),
        ("--x=/workspace/sub", Some(format!("--x={}", host("sub")))),
        ("/workspace/in", Some(host("sub/file"))),
        ("/workspace/new", Some(host("new"))),
        ("/workspace/new/deep", Some(host("new/deep"))),
        ("file", Some("file".into())),
        ("../in", Some("../in".into())),
        ("nothing", Some("nothing".into())),
        ("https://x/y", Some("https://x/y".into())),
        ("/dev/null", Some("/dev/null".into())),
        ("/workspace/out", None),
        ("/workspace/abs", None),
        ("/workspace/dirout/secret", None),
        ("/workspace/../secret", None),
        ("/workspace/sub/../../secret", None),
        ("/workspacex/y", None),
        ("../out", None),
        ("../../secret", None),
        ("../../nothing", None),
        ("--x=../../secret", None),
        ("/etc/passwd", None),
        ("/", None),
        ("-f/etc/passwd", None),
        ("file:///etc/passwd", None),
        ("a:/etc", None),
    ] {
        let found = shared_dirs
            .argument(OsStr::new(word), Some(&cwd))
            .ok()
            .map(|word| word.to_string_lossy().into_owned());
        assert_eq!(found, expected, "{word}");
    }
    for outside in ["/", "/etc", "/workspace/dirout", "/workspace/none", "/workspace/../"] {
        assert!(shared_dirs.work_dir(outside.as_ref()).is_err(), "{outside}");
    }
}

#[test]
fn h8_links_are_found_behind_options_and_under_names_that_look_like_them() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    for name in ["out", "-out"] {
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join(name)).unwrap();
    }
    let mount = HostMount { container: "/workspace".into(), host: dir.path().to_owned() };
    let shared_dirs = SharedDirs::open(&[mount]).unwrap();
    let cwd = shared_dirs.work_dir("/workspace".as_ref()).unwrap();
    for (word, passes) in [
        ("-v", true),
        ("-ffile", true),
        ("-f", true),
        ("-fout", false),
        ("-vfout", false),
        ("-out", false),
    ] {
        assert_eq!(shared_dirs.argument(OsStr::new(word), Some(&cwd)).is_ok(), passes, "{word}");
    }
}
