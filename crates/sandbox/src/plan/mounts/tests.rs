use tempfile::TempDir;

use super::*;
use crate::plan::home_overlay::first_missing;
use crate::plan::{Plan, plan};
use sandbox_policy::config::Request;

/// A home with these files and a project `home/p` in it.
struct Home {
    _dir: TempDir,
    top: PathBuf,
    host: Host,
}

impl Home {
    fn new(files: &[&str]) -> Self {
        // Not in `/tmp`, which is private to a sandbox.
        let dir = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
        let home = dir.path().canonicalize().unwrap();
        fs::create_dir(home.join("p")).unwrap();
        for file in files {
            fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
            fs::write(home.join(file), "").unwrap();
        }
        let host = Host {
            cwd: Some(home.join("p")),
            home: Some(home.clone()),
            env: std::iter::once(("PATH".into(), "/usr/bin".into())).collect(),
            exe: "/usr/bin/env".into(),
            uid: 1000,
            gid: 1000,
            inside: false,
        };
        Self { _dir: dir, top: home, host }
    }

    fn plan(&self, paths: &[(Access, &str)]) -> Result<Plan, PlanError> {
        let paths = paths.iter().map(|(access, path)| (*access, (*path).to_owned())).collect();
        plan(&self.host, &Request { paths, ..Request::default() })
    }

    /// Mounts below home, without `p` itself.
    fn mounts(&self, paths: &[(Access, &str)]) -> Vec<(String, View)> {
        let below = |mount: Mount| {
            let name = mount.target.strip_prefix(&self.top).ok()?.display().to_string();
            (name != "p").then_some((name, mount.view))
        };
        self.plan(paths).unwrap().mounts.into_iter().filter_map(below).collect()
    }

    fn missing(&self, paths: &[(Access, &str)]) -> Vec<PathBuf> {
        self.plan(paths).unwrap().home_overlay.unwrap().missing
    }
}

use Access::{Exclude, Ro, Rw};
use View::{EmptyDir, EmptyFile, Pin, ReadOnly, ReadWrite};

#[test]
fn build_adds_a_mount_only_when_the_view_changes() {
    let home = Home::new(&["a/b/c", "d/e", "p/x/y"]);
    for (why, rules, expected) in [
        ("home is read-only anyway", &[(Ro, "~/a")][..], &[][..]),
        ("the project is writable anyway", &[(Rw, "x")], &[]),
        ("missing", &[(Exclude, "~/none"), (Rw, "~/none/x")], &[]),
        ("a file", &[(Exclude, "~/a/b/c")], &[("a/b/c", EmptyFile)]),
        ("a directory", &[(Exclude, "~/a")], &[("a", EmptyDir)]),
        ("hidden twice", &[(Exclude, "~/a"), (Exclude, "~/a/b")], &[("a", EmptyDir)]),
        (
            "shown again",
            &[(Exclude, "~/a"), (Ro, "~/a/b/c")],
            &[("a", EmptyDir), ("a/b/c", ReadOnly)],
        ),
        ("writable", &[(Rw, "~/d")], &[("d", ReadWrite)]),
        ("pinned ancestor", &[(Ro, "x/y")], &[("p/x", Pin), ("p/x/y", ReadOnly)]),
        ("hidden needs no pin", &[(Exclude, "x/y")], &[("p/x/y", EmptyFile)]),
    ] {
        let expected: Vec<_> =
            expected.iter().map(|(path, view)| ((*path).to_owned(), *view)).collect();
        assert_eq!(home.mounts(rules), expected, "{why}");
    }
}

#[test]
fn build_creates_mount_points_in_hidden_directories_only() {
    let home = Home::new(&["a/b/c"]);
    let plan = home.plan(&[(Exclude, "~/a"), (Rw, "~/a/b")]).unwrap();
    let created: Vec<_> =
        plan.mounts.iter().filter(|mount| mount.create).map(|mount| &mount.target).collect();
    assert_eq!(created, [&home.top.join("a/b")]);
}

#[test]
fn plan_refuses_rules_on_managed_paths_and_a_missing_home() {
    let home = Home::new(&[]);
    for (why, rule, message) in [
        ("proc", (Ro, "/proc/self"), "cannot set a rule on `/proc"),
        ("dev", (Rw, "/dev"), "cannot set a rule on `/dev`"),
        ("the root", (Exclude, "/"), "cannot set a rule on `/`"),
        ("the working directory", (Exclude, "."), "the working directory"),
    ] {
        let error = home.plan(&[rule]).unwrap_err().to_string();
        assert!(error.contains(message), "{why}: {error}");
    }
    let homeless = Host { home: Some(home.top.join("none")), ..home.host.clone() };
    assert!(matches!(plan(&homeless, &Request::default()), Err(PlanError::Home(_))));
}

#[test]
fn first_missing_returns_the_topmost_missing_path() {
    let home = Home::new(&["a/b/c"]);
    let top = &home.top;
    for (path, expected) in [
        ("a/b/c", None),
        ("a/b", None),
        ("x", Some("x")),
        ("x/y/z", Some("x")),
        ("a/x/y", Some("a/x")),
        ("a/b/c/d", None),
    ] {
        assert_eq!(
            first_missing(top, &top.join(path), &Resolver::default()),
            expected.map(|path| top.join(path)),
            "{path}"
        );
    }
    assert_eq!(first_missing(top, Path::new("/elsewhere"), &Resolver::default()), None);
}

#[test]
fn exclude_applies_when_another_rule_follows_a_broken_link() {
    let home = Home::new(&["p/key"]);
    std::os::unix::fs::symlink("none/../key", home.top.join("p/link")).unwrap();
    let global = home.host.config_dir().unwrap();
    fs::create_dir_all(&global).unwrap();
    fs::write(global.join("config.json"), r#"{"filesystem":{"exclude":["key"]}}"#).unwrap();
    let mounts = home.mounts(&[(Exclude, "link")]);
    assert!(mounts.contains(&("p/key".into(), EmptyFile)), "{mounts:?}");
}

#[test]
fn home_overlay_keeps_secrets_hidden_that_appear_later() {
    let home = Home::new(&[".aws/credentials", ".config/x", "d/e"]);
    let missing = home.missing(&[(Exclude, "~/later/x"), (Exclude, "~/d/new"), (Ro, "~/read")]);
    for (path, expected) in [
        (".ssh", true),
        (".netrc", true),
        (".config/gh", true),
        ("later", true),
        ("d/new", true),
        (".aws", false),
        (".config", false),
        ("read", false),
    ] {
        assert_eq!(missing.contains(&home.top.join(path)), expected, "{path}");
    }
    // In a writable directory there is no overlay that could hide it.
    let opened = home.missing(&[(Exclude, "~/d/new"), (Rw, "~/d")]);
    assert!(!opened.contains(&home.top.join("d/new")));
}

#[test]
fn home_overlay_is_not_used_when_home_is_writable_or_the_sandbox_is_nested() {
    let home = Home::new(&[]);
    assert!(home.plan(&[]).unwrap().home_overlay.is_some());
    assert!(home.plan(&[(Ro, "!~"), (Rw, "~")]).unwrap().home_overlay.is_none());
    let inside = Host { inside: true, ..home.host.clone() };
    assert!(plan(&inside, &Request::default()).unwrap().home_overlay.is_none());
}

#[test]
fn watched_lists_protected_files_at_their_own_paths() {
    let home = Home::new(&["p/a", "p/b", "p/c", "p/d/e"]);
    let plan = home.plan(&[(Ro, "a"), (Exclude, "b"), (Ro, "d")]).unwrap();
    assert_eq!(plan.watched, [home.top.join("p/a"), home.top.join("p/b")]);
}

#[test]
fn note_about_a_lost_flag_names_the_flag_that_would_help() {
    let home = Home::new(&[".ssh/id"]);
    let notes = home.plan(&[(Ro, "~/.ssh")]).unwrap().notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("--exclude '!~/.ssh'"), "{notes:?}");
    let back = home.plan(&[(Ro, "~/.ssh"), (Exclude, "!~/.ssh")]).unwrap();
    assert_eq!(back.notes, [] as [String; 0]);
}
