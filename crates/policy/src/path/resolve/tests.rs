use std::os::unix::fs::symlink;

use super::*;

/// Creates a directory with files, directories (`x/`) and links (`x -> y`; `@` is the directory's path).
fn tree(lines: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    for line in lines {
        match line.split_once(" -> ") {
            Some((name, target)) => {
                let target = target.replace('@', &top.display().to_string());
                symlink(target, top.join(name)).unwrap();
            }
            None if line.ends_with('/') => fs::create_dir_all(top.join(line)).unwrap(),
            None => fs::write(top.join(line), "").unwrap(),
        }
    }
    (dir, top)
}

#[test]
fn place_follows_every_link_and_records_their_directories() {
    let (_dir, top) = tree(&[
        "d/e/",
        "d/e/f",
        "one -> two",
        "two -> @/d",
        "d/up -> ../d/e",
        "d/e/far -> ../../one/e/../../two/up/f",
        "loop -> pool",
        "pool -> loop",
        "self -> self/x",
        "gone -> nothing/here",
        "root -> /",
        "nowhere -> none/../d/e/f",
        "flat -> d/e/f/../f",
    ]);
    for (path, expected, kind, links) in [
        ("d/e", "d/e", Kind::Dir, &[][..]),
        ("d/e/f", "d/e/f", Kind::File, &[]),
        ("d/new/file", "d/new/file", Kind::Missing, &[]),
        ("d/e/f/below", "d/e/f/below", Kind::Missing, &[]),
        ("one", "d", Kind::Dir, &["", ""]),
        ("one/e/f", "d/e/f", Kind::File, &["", ""]),
        ("one/up/f", "d/e/f", Kind::File, &["", "", "d"]),
        ("d/e/far", "d/e/f", Kind::File, &["d/e", "", "", "", "d"]),
        ("gone", "nothing/here", Kind::Missing, &[""]),
        ("nowhere", "none", Kind::Missing, &[""]),
        ("flat", "flat", Kind::Missing, &[""]),
        ("gone/deeper", "nothing/here/deeper", Kind::Missing, &[""]),
    ] {
        let place = Resolver::default().place(&top.join(path));
        assert_eq!(place.path, top.join(expected), "{path}");
        assert_eq!(place.kind, kind, "{path}");
        let expected: Vec<_> = links.iter().map(|link| clean(&top.join(link))).collect();
        assert_eq!(place.links, expected, "{path}");
    }
    assert_eq!(Resolver::default().place(&top.join("root/etc")).path, Path::new("/etc"));
}

#[test]
fn place_is_missing_when_links_form_a_loop_or_names_are_too_long() {
    let (_dir, top) = tree(&["loop -> pool", "pool -> loop", "self -> self/x"]);
    let long = "x".repeat(300);
    for path in ["loop", "loop/below", "self", long.as_str()] {
        assert_eq!(Resolver::default().place(&top.join(path)).kind, Kind::Missing, "{path}");
    }
}

#[test]
fn place_has_the_kernels_limit_of_symlinks() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    fs::write(top.join("0"), "").unwrap();
    for link in 1..=60 {
        symlink((link - 1).to_string(), top.join(link.to_string())).unwrap();
    }
    for link in 0..=60 {
        let path = top.join(link.to_string());
        let kernel = fs::metadata(&path).is_ok();
        let place = Resolver::default().place(&path);
        assert_eq!(place.kind == Kind::File, kernel, "a chain of {link}");
    }
}

#[test]
fn place_is_the_same_from_the_cache() {
    let (_dir, top) = tree(&["d/e/", "d/e/f", "one -> d"]);
    let mut resolver = Resolver::default();
    for path in ["one/e/f", "one/e/f", "d/e/f", "one/e", "one"] {
        assert_eq!(
            resolver.place(&top.join(path)),
            Resolver::default().place(&top.join(path)),
            "{path}"
        );
    }
}

#[test]
fn resolve_returns_one_rule_for_each_match_of_a_glob() {
    let (_dir, top) =
        tree(&["a.key", "d/e/", "d/b.key", "d/e/c.key", "out -> d/e", "d/not.txt", ".h.key"]);
    for (pattern, expected) in [
        ("*.key", &[".h.key", "a.key"][..]),
        ("**/*.key", &[".h.key", "a.key", "d/b.key", "d/e/c.key"]),
        ("d/**", &["d/b.key", "d/e", "d/e/c.key", "d/not.txt"]),
        ("*/c.key", &["d/e/c.key"]),
        ("**/e", &["d/e"]),
        ("out/*", &["d/e/c.key"]),
        ("*.none", &[]),
    ] {
        let rule = Sourced::new(PathRule::new(Access::Ro, pattern), Origin::Default);
        let found = Resolver::default().resolve(&rule, &top, None).unwrap();
        let paths: Vec<_> = found.iter().map(|rule| rule.path.clone()).collect();
        let expected: Vec<_> = expected.iter().map(|path| top.join(path)).collect();
        assert_eq!(paths, expected, "{pattern}");
        assert!(found.iter().all(|rule| rule.matched == Matched::Glob), "{pattern}");
    }
}
