use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox_git::protect::*;
use sandbox_policy::Host;
use sandbox_protocol::Hint;

use super::world::{WHOLE, World};

fn names(world: &World, paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.strip_prefix(&world.base).unwrap().display().to_string()).collect()
}

fn strict(world: &World, roots: &[&str]) -> Result<GitProtection, ProtectError> {
    let roots: Vec<_> = roots.iter().map(|root| world.path(root)).collect();
    discover(&world.host, &roots, true, &[], WHOLE)
}

/// Runs a script in bwrap with the mounts that a plan would make for a protection.
fn bwrap(world: &World, git: &GitProtection, roots: &[&str], script: &str) -> bool {
    let mut bwrap = Command::new("bwrap");
    bwrap.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    let roots = roots.iter().map(|root| world.path(root));
    for path in roots.chain(git.writable.iter().cloned()).chain(git.pins.iter().cloned()) {
        bwrap.arg("--bind").arg(&path).arg(&path);
    }
    for path in &git.read_only {
        bwrap.arg("--ro-bind").arg(path).arg(path);
    }
    bwrap.args(["--setenv", "HOME"]).arg(world.path("home")).args([
        "--setenv",
        "GIT_AUTHOR_NAME",
        "n",
    ]);
    for name in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
        bwrap.args(["--setenv", name, "n"]);
    }
    bwrap.args(["--unsetenv", "GIT_DIR", "--chdir"]).arg(world.work()).args(["sh", "-ec", script]);
    bwrap.output().expect("bwrap is needed for this test: apt install bubblewrap").status.success()
}

#[test]
fn discover_protects_what_exists_and_lists_what_does_not_when_the_repository_is_plain() {
    let world = World::with_repo();
    let git = world.discover(&["work"]);
    assert_eq!(names(&world, &git.read_only), ["work/.git/config", "work/.git/hooks"]);
    assert_eq!(names(&world, &git.pins), ["work/.git"]);
    assert_eq!(
        names(&world, &git.absent),
        [
            "work/.git/commondir",
            "work/.git/config.worktree",
            "work/.git/info/attributes",
            "work/.git/info/grafts",
            "work/.git/objects/info/alternates",
            "work/.git/objects/info/http-alternates",
        ]
    );
    assert_eq!(git.repos[0].kind, RepoKind::Plain);
    assert!(git.writable.is_empty() && !git.stopped_early);
}

#[test]
fn discover_finds_nothing_when_there_is_no_repository() {
    let nothing = GitProtection { searched: true, ..GitProtection::default() };
    assert_eq!(World::new().discover(&["work", "missing"]), nothing);
}

#[test]
fn fs9_git_cannot_be_changed_or_renamed_when_it_is_protected() {
    let world = World::with_repo();
    let git = world.discover(&["work"]);
    let open = GitProtection::default();
    assert!(bwrap(
        &world,
        &git,
        &["work"],
        "git commit -q --allow-empty -m x; git switch -qc t; git gc -q"
    ));
    for script in [
        "echo >> .git/config",
        "touch .git/hooks/pre-commit",
        "mv .git/config .git/config.old",
        "mv .git/hooks .git/old",
        "mv .git .git.old",
    ] {
        assert!(!bwrap(&world, &git, &["work"], script), "{script}");
        assert!(bwrap(
            &world,
            &open,
            &["work"],
            &format!("cp -a . /dev/shm/$$; cd /dev/shm/$$; {script}")
        ));
    }
}

#[test]
fn worktree_can_commit_but_not_change_its_repository_when_it_points_back() {
    let world = World::new();
    fs::remove_dir(world.work()).unwrap();
    world.init("main");
    world.git("main", &["worktree", "add", "-q", "../work"]);
    world.git("main", &["worktree", "add", "-q", "../third"]);
    let git = world.discover(&["work"]);
    assert_eq!(names(&world, &git.writable), ["main/.git"]);
    assert_eq!(git.repos[0].kind, RepoKind::Worktree);
    let read_only = names(&world, &git.read_only);
    for path in [
        "HEAD",
        "config",
        "hooks",
        "index",
        "worktrees/third",
        "worktrees/work/commondir",
        "worktrees/work/gitdir",
    ] {
        assert!(read_only.contains(&format!("main/.git/{path}")), "{path}");
    }
    let work = "echo x > new; git add new; git commit -qm x; git switch -qc topic; git status";
    assert!(bwrap(&world, &git, &["work"], work));
    assert!(!bwrap(&world, &GitProtection::default(), &["work"], work), "without the grant");
    let main = world.path("main/.git").display().to_string();
    for script in [
        "echo > $M/config",
        "echo > $M/HEAD",
        "touch $M/hooks/x",
        "echo > $M/worktrees/third/HEAD",
        "rm -f .git",
        "mv $M/worktrees/work $M/worktrees/old",
        "mv $M/worktrees $M/old",
        "git --git-dir=$M symbolic-ref HEAD refs/heads/topic",
    ] {
        assert!(!bwrap(&world, &git, &["work"], &script.replace("$M", &main)), "{script}");
    }
}

#[test]
fn g6_pointer_opens_nothing_when_the_repository_does_not_point_back() {
    let distrust = |world: &World| {
        let git = world.discover(&["work"]);
        assert_eq!(names(world, &git.writable), [""; 0]);
        git.refused.first().map(|refused| refused.why)
    };
    let world = World::new();
    world.init("victim");
    world.write("work/.git", &format!("gitdir: {}\n", world.path("victim/.git").display()));
    assert_eq!(distrust(&world), Some(Distrust::NoBackPointer), "another repository");

    world.write("work/.git", &format!("gitdir: {}\n", world.path("home").display()));
    assert_eq!(distrust(&world), Some(Distrust::NoGitDir), "not a git directory");

    fs::remove_file(world.path("work/.git")).unwrap();
    fs::remove_dir(world.work()).unwrap();
    world.git("victim", &["worktree", "add", "-q", "../tree"]);
    world.write("work/.git", &world.read("tree/.git"));
    assert_eq!(distrust(&world), Some(Distrust::NoBackPointer), "another worktree of it");

    world.init("home");
    world.git("home", &["config", "core.worktree", "../../work"]);
    world.write("work/.git", "gitdir: ../home/.git\n");
    let git = world.discover(&["work"]);
    assert_eq!(names(&world, &git.writable), ["home/.git"], "a repository that points back");
    for junk in ["", "gitdir:", "gitdir: \0", "gitdir: .git\n", "no pointer"] {
        world.write("work/.git", junk);
        assert!(world.discover(&["work"]).writable.is_empty(), "{junk:?}");
    }
}

#[test]
fn pointer_inside_the_root_opens_nothing_when_it_was_only_found_there() {
    let world = World::with_repo();
    world.init("main");
    world.git("main", &["worktree", "add", "-q", "../work/tree"]);
    let git = world.discover(&["work"]);
    assert_eq!(names(&world, &git.writable), [""; 0]);
    assert!(names(&world, &git.read_only).contains(&"work/tree/.git".into()));
}

#[test]
fn submodules_and_nested_repositories_are_protected_like_the_first() {
    let world = World::with_repo();
    world.init("other");
    world.git("work", &["submodule", "--quiet", "add", "--name", "a/b", "../other", "sub"]);
    world.init("work/x/y/nested");
    world.git(".", &["clone", "-q", "--bare", "other", "work/bare.git"]);
    let git = world.discover(&["work"]);
    let read_only = names(&world, &git.read_only);
    for path in [
        ".git/modules/a/b/config",
        ".git/modules/a/b/hooks",
        "sub/.git",
        "x/y/nested/.git/config",
        "bare.git/config",
    ] {
        assert!(read_only.contains(&format!("work/{path}")), "{path}: {read_only:?}");
    }
    let pins = names(&world, &git.pins);
    assert!(
        pins.contains(&"work/.git/modules/a".into())
            && pins.contains(&"work/x/y/nested/.git".into())
    );
    assert!(!pins.contains(&"work/x".into()), "directories of the project can still be renamed");
    assert!(!bwrap(&world, &git, &["work"], "mv .git/modules/a .git/modules/z"));
    assert!(bwrap(&world, &git, &["work"], "cd sub; git commit -q --allow-empty -m x"));

    let git = world.discover(&["work/sub"]);
    assert_eq!(names(&world, &git.writable), ["work/.git/modules/a/b"], "started in the submodule");
}

#[test]
fn known_repositories_are_protected_when_the_budget_is_too_small_to_find_them() {
    let world = World::with_repo();
    world.init("work/x/y/nested");
    let known = [world.path("work/x/y/nested/.git"), world.path("gone/.git")];
    let blind = Budget { entries: 0, ..WHOLE };
    let git = discover(&world.host, &[world.work()], false, &known, blind).unwrap();
    assert!(git.stopped_early);
    assert!(names(&world, &git.read_only).contains(&"work/x/y/nested/.git/config".into()));
}

#[test]
fn settings_lead_to_what_they_name_when_it_lies_in_reach() {
    let world = World::with_repo();
    world.write(
        "work/team/settings",
        "[include]\n\tpath = more\n[core]\n\tattributesFile = /etc/attributes\n",
    );
    world.write("work/tools/hooks/pre-commit", "");
    for (key, value) in [
        ("include.path", "../team/settings"),
        ("core.hooksPath", "tools/hooks"),
        ("core.attributesFile", "~/attributes"),
        ("core.fsmonitor", "tools/monitor"),
    ] {
        world.git("work", &["config", key, value]);
    }
    let git = world.discover(&["work", "home"]);
    let (read_only, absent) = (names(&world, &git.read_only), names(&world, &git.absent));
    assert!(read_only.contains(&"work/team/settings".into()), "{read_only:?}");
    assert!(read_only.contains(&"work/tools/hooks".into()), "{read_only:?}");
    assert!(names(&world, &git.pins).contains(&"work/tools".into()));
    assert!(names(&world, &git.hooks).contains(&"work/tools/hooks".into()));
    for path in ["work/team/more", "home/attributes", "work/tools/monitor"] {
        assert!(absent.contains(&path.into()), "{path}: {absent:?}");
    }
}

#[test]
fn settings_of_the_enclosing_repository_count_when_they_name_something_below() {
    let world = World::with_repo();
    world.git("work", &["config", "core.hooksPath", "sub/hooks"]);
    world.write("work/sub/hooks/pre-commit", "");
    let git = world.discover(&["work/sub"]);
    let protected = ["work/.git/config", "work/.git/hooks", "work/sub/hooks"];
    assert_eq!(names(&world, &git.read_only), protected);
    assert_eq!(names(&world, &git.writable), ["work/.git"]);
    assert_eq!(git.enclosing, Some(world.work()));
    // At home, the repository itself stays read-only.
    let home = Host { home: Some(world.path("work")), ..world.host.clone() };
    let git = discover(&home, &[world.path("work/sub")], false, &[], WHOLE).unwrap();
    assert_eq!(names(&world, &git.read_only), ["work/sub/hooks"]);
    assert!(git.writable.is_empty() && git.repos.is_empty() && git.enclosing.is_none());
}

#[test]
fn link_is_protected_at_its_end_and_remembered() {
    let world = World::with_repo();
    fs::rename(world.path("work/.git"), world.path("work/store")).unwrap();
    symlink("store", world.path("work/.git")).unwrap();
    let git = world.discover(&["work"]);
    assert!(names(&world, &git.read_only).contains(&"work/store/config".into()));
    assert_eq!(git.links, [Link { path: world.path("work/.git"), target: "store".into() }]);

    let world = World::with_repo();
    fs::rename(world.path("work/.git"), world.path("store")).unwrap();
    symlink("../store", world.path("work/.git")).unwrap();
    let git = world.discover(&["work"]);
    assert!(
        git.read_only.is_empty() && git.writable.is_empty(),
        "not writable before, so not opened"
    );
    assert_eq!(git.links.len(), 1);
}

#[test]
fn strict_protects_every_branch_but_the_current_one() {
    let world = World::with_repo();
    for branch in ["other", "deep/er"] {
        world.git("work", &["branch", branch]);
    }
    world.git("work", &["tag", "v1"]);
    let git = strict(&world, &["work"]).unwrap();
    let refs: Vec<_> =
        names(&world, &git.read_only).into_iter().filter(|path| path.contains("refs")).collect();
    assert_eq!(
        refs,
        ["work/.git/refs/heads/deep/er", "work/.git/refs/heads/other", "work/.git/refs/tags"]
    );
    assert!(bwrap(&world, &git, &["work"], "git commit -q --allow-empty -m x; git branch new"));
    for script in [
        "git branch -f other HEAD~",
        "git tag v2",
        "mv .git/refs .git/old",
        "git branch -D deep/er",
    ] {
        assert!(
            !bwrap(&world, &git, &["work"], &format!("git commit -q --allow-empty -m x; {script}")),
            "{script}"
        );
    }
    world.git("work", &["switch", "-q", "--detach"]);
    let git = strict(&world, &["work"]).unwrap();
    assert!(
        names(&world, &git.read_only).contains(&"work/.git/refs/heads/main".into()),
        "detached"
    );
}

#[test]
fn strict_starts_when_refs_are_kept_otherwise() {
    let world = World::new();
    world.git(".", &["init", "-q", "--ref-format=reftable", "work"]);
    assert!(strict(&world, &["work"]).is_ok());
    let world = World::with_repo();
    world.git("work", &["pack-refs", "--all"]);
    fs::remove_dir_all(world.path("work/.git/refs")).unwrap();
    let git = strict(&world, &["work"]).unwrap();
    assert!(names(&world, &git.read_only).contains(&"work/.git/packed-refs".into()));
}

#[test]
fn odd_input_never_stops_or_hangs_the_start() {
    let world = World::with_repo();
    let mkfifo =
        |path: &str| Command::new("mkfifo").arg(world.path(path)).status().unwrap().success();
    world.write("work/a/.git", "");
    fs::create_dir_all(world.path("work/b/.git")).unwrap();
    fs::create_dir_all(world.path("work/c")).unwrap();
    symlink(".git", world.path("work/c/.git")).unwrap();
    fs::create_dir_all(world.path("work/d/.git")).unwrap();
    assert!(mkfifo("work/d/.git/config") && mkfifo("work/d/.git/commondir"));
    world.write("work/e/.git/config", "[include]\npath = config\n");
    world.write("work/e/.git/HEAD", "\u{0}");
    world.write("work/f/.git/config", "not [ configuration");
    fs::create_dir_all(world.path("work/g")).unwrap();
    assert!(mkfifo("work/g/.git"));
    assert!(strict(&world, &["work"]).is_ok());
    let large = "#".repeat(5 << 20);
    world.write("work/.git/config", &large);
    let error = strict(&world, &["work"]).unwrap_err();
    assert!(
        matches!(&error, ProtectError::ConfigTooLarge { path } if path.ends_with("work/.git/config"))
    );
    assert!(error.hint().is_some());
}

#[test]
fn settle_resolves_like_the_kernel() {
    let world = World::new();
    world.write("work/real/file", "");
    symlink("real", world.path("work/link")).unwrap();
    symlink("loop", world.path("work/loop")).unwrap();
    for (path, expected, exists) in [
        ("real/file", "work/real/file", true),
        ("link/file", "work/real/file", true),
        ("link/../x", "work/x", false),
        ("link/none/deeper", "work/real/none/deeper", false),
    ] {
        let settled = settle(&world.work(), Path::new(path)).unwrap();
        assert_eq!((settled.path, settled.exists), (world.path(expected), exists), "{path}");
    }
    assert_eq!(settle(&world.work(), Path::new("loop/x")), None);
}
