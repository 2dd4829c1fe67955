//! The grammar's claims, checked by git itself: a call is refused exactly when the real git, left to run it, does the harm.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::*;

/// A repository with a dirty file, an untracked one, a failing hook, an unmerged branch, a stash and a remote that moved on.
struct World(TempDir);

impl World {
    fn copy(&self) -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(self.path(".")).arg(world.0.path());
        assert!(copy.status().unwrap().success());
        world
    }

    fn new() -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(world.path("w")).unwrap();
        world.git("init -q -b main");
        for (name, value) in [
            ("user.name", "a"),
            ("user.email", "a@b"),
            ("commit.gpgsign", "false"),
            ("rebase.stat", "true"),
        ] {
            world.git(&format!("config {name} {value}"));
        }
        world.write("f", "one");
        world.git("add f");
        world.git("commit -qm one");
        world.git("init -q --bare ../remote");
        world.git("remote add origin ../remote");
        world.git("branch topic");
        world.write("g", "theirs");
        world.git("add g");
        world.git("commit -qm theirs");
        world.git("push -q origin main");
        world.git("reset -q --hard HEAD~1");
        world.write("f", "stashed");
        world.git("stash -q");
        world.git("switch -q topic");
        world.write("h", "topic");
        world.git("add h");
        world.git("commit -qm topic");
        world.git("switch -q main");
        world.write("i", "ours");
        world.git("add i");
        world.git("commit -qm ours");
        world
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path("w").join(name), text).unwrap();
    }

    fn hook(&self, name: &str) {
        let hook = self.path("w/.git/hooks").join(name);
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, argv: &[OsString]) -> Command {
        let mut git = Command::new("git");
        git.args(argv).current_dir(self.path("w")).env("HOME", self.0.path());
        git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_EDITOR", "true").env("LC_ALL", "C");
        git.env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
        git
    }

    fn git(&self, line: &str) -> String {
        let output = self.command(&alias::split(line.as_bytes())).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn real(&self) -> RealGit {
        let path = Command::new("sh").args(["-c", "command -v git"]).output().unwrap().stdout;
        let path = String::from_utf8(path).unwrap();
        RealGit::new(path.trim().into(), vec![self.path("scratch")], Vec::new())
    }

    fn refuses(&self, line: &str) -> bool {
        let mut argv = vec![OsString::from("git"), "-C".into(), self.path("w").into()];
        argv.extend(alias::split(line.as_bytes()));
        matches!(judge(&argv, &Env::new(), &self.real()), Verdict::Refuse(_))
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Runs each line in a new world, and compares what happened with the verdict.
fn check(lines: &[&str], prepare: fn(&World), harmed: fn(&World) -> bool) {
    let template = World::new();
    prepare(&template);
    for line in lines {
        let world = template.copy();
        assert!(!harmed(&world), "{line}: harmed before it ran");
        let refused = world.refuses(line);
        world.git(line);
        assert_eq!(refused, harmed(&world), "git {line}");
    }
}

fn dirty(world: &World) {
    world.write("f", "dirty");
}

fn lost_changes(world: &World) -> bool {
    text(&world.path("w/f")) != "dirty"
}

#[test]
fn resets_lose_changes_when_refused() {
    check(
        &[
            "reset --hard",
            "reset --har",
            "reset --h",
            "reset -q --hard HEAD",
            "reset HEAD --hard",
            "reset --soft --hard",
            "reset --hard --soft",
            "reset --hard --mixed",
            "reset --hard --keep",
            "reset --merge --hard",
            "reset --mixed",
            "reset --keep",
            "reset --merge",
            "reset -- f",
            "reset --quiet",
            "reset -h",
            "reset --hard --help",
            "-c a.b=c reset --hard",
            "-p reset --hard",
            "-c alias.x='reset --hard' x",
            "-c alias.x='!git status' x",
            "-c alias.status='reset --hard' status",
            "-c alias.x=y -c alias.y='reset --hard' x",
            "switch -f topic",
            "switch --force topic",
            "switch --discard-changes main",
            "switch --disc main",
            "switch --force --no-force main",
            "switch topic",
            "read-tree --reset -u HEAD",
            "read-tree -u --reset HEAD",
            "read-tree --reset -u -n HEAD",
            "read-tree --reset HEAD",
            "read-tree -m -u HEAD",
            "checkout-index -f -a",
            "checkout-index -fa",
            "checkout-index -a",
            "checkout-index -f --temp f",
            "checkout .",
            "checkout -f",
            "checkout -h",
            "checkout --help",
            "restore f",
            "restore -h",
            "stash drop -h",
        ],
        dirty,
        lost_changes,
    );
}

#[test]
fn cleans_delete_files_when_refused() {
    check(
        &[
            "clean -f",
            "clean -fd",
            "clean -xdf",
            "clean --force",
            "clean --forc",
            "clean -f --no-force",
            "clean --no-force -f",
            "clean -n",
            "clean -nf",
            "clean -f -n --no-dry-run",
            "clean",
            "clean -efoo",
            "clean -e foo -f",
            "clean -e -f",
            "clean -f -- untracked",
            "clean -- -f",
            "-c clean.requireForce=false clean",
            "-c clean.requireForce=true clean",
            "-c clean.requireForce=false clean -n",
        ],
        |world| world.write("untracked", "x"),
        |world| text(&world.path("w/untracked")).is_empty(),
    );
}

#[test]
fn commits_skip_their_hooks_when_refused() {
    check(
        &[
            "commit -n -m x",
            "commit -nm x",
            "commit -an -m x",
            "commit --no-verify -m x",
            "commit --no-veri -m x",
            "commit -m x --no-verify --verify",
            "commit -m x --verify --no-verify",
            "commit -m -n",
            "commit -am -n",
            "commit -mn",
            "commit --message=-n",
            "commit --mess -n",
            "commit -m x",
            "commit -m x -S -n --no-gpg-sign",
            "commit -m x -un",
            "commit -m x -uno -n",
            "commit --author -n -m x",
            "commit -m x --trailer -n",
            "commit -m x -- -n",
            "commit -m x --cleanup strip -n",
            "commit -m x --dry-run",
            "-c core.hooksPath=/dev/null commit -m x",
            "-c core.editor=true commit -m x",
        ],
        |world| {
            world.write("f", "two");
            world.git("add f");
            world.hook("pre-commit");
        },
        |world| world.git("log --format=%s -1") != "ours\n",
    );
}

#[test]
fn merges_and_rebases_skip_their_hooks_when_refused() {
    let before = |world: &World| {
        world.hook("pre-merge-commit");
        world.hook("pre-rebase");
    };
    check(
        &[
            "merge --no-verify topic",
            "merge --no-verify --verify topic",
            "merge -n topic",
            "merge --no-stat topic",
            "merge --no-verify-signatures topic",
            "merge -m --no-verify topic",
            "merge topic",
            "rebase --no-verify topic",
            "rebase -n topic",
            "rebase --no-stat topic",
            "rebase topic",
            "pull --no-rebase --no-verify . topic",
            "pull --no-rebase -n . topic",
            "pull --no-rebase --no-verify --verify . topic",
        ],
        before,
        |world| !text(&world.path("w/h")).is_empty() && !world.path("w/.git/MERGE_HEAD").is_file(),
    );
}

#[test]
fn branches_lose_commits_when_refused() {
    check(
        &[
            "branch -D topic",
            "branch -d -f topic",
            "branch -df topic",
            "branch --del --forc topic",
            "branch -d topic",
            "branch -d -f --no-force topic",
            "branch -f topic main",
            "branch --force --no-force topic main",
            "branch topic main",
            "branch -M main topic",
            "branch -m -f main topic",
            "branch -m main topic",
            "branch -C main topic",
            "branch -c main topic",
            "branch --sort -D --list topic",
            "branch --contains topic",
            "branch --format -D",
            "switch -C topic main",
            "switch --force-create topic main",
            "switch -c topic main",
            "worktree add -B topic ../x main",
            "update-ref -d refs/heads/topic",
            "update-ref -m -d refs/heads/x HEAD",
        ],
        |_| (),
        |world| !world.git("log --format=%s -1 topic --").starts_with("topic"),
    );
}

#[test]
fn stashes_are_lost_when_refused() {
    check(
        &[
            "stash drop",
            "stash clear",
            "stash pop",
            "stash pop -q",
            "stash -q drop",
            "stash apply",
            "stash list",
            "stash push -m drop",
            "reflog delete stash@{0}",
            "reflog expire --expire=now refs/stash",
            "reflog expire -n --expire=now refs/stash",
            "update-ref -d refs/stash",
        ],
        |_| (),
        |world| !world.git("stash list").contains("stash@{0}"),
    );
}

#[test]
fn pushes_overwrite_the_remote_when_refused() {
    check(
        &[
            "push -f origin main",
            "push --force origin main",
            "push --dele origin main",
            "push --force --no-force origin main",
            "push -f -n origin main",
            "push origin +main",
            "push origin -- +main",
            "push origin main",
            "push --mirror origin",
            "push origin :main",
            "push -d origin main",
            "push --delete origin main",
            "push origin :",
            "push -o -f origin main",
            "push --prune origin refs/heads/none*:refs/heads/m*",
            "-c remote.origin.push=+main push origin",
            "-c remote.origin.push=+refs/heads/main:refs/heads/main push origin main",
            "-c remote.origin.push=main push origin",
            "-c remote.origin.mirror=true push origin",
            "-c alias.p='push -f' p origin main",
        ],
        |_| (),
        |world| world.git("--git-dir=../remote log --format=%s -1 main --") != "theirs\n",
    );
}

#[test]
fn misspelt_commands_do_no_harm_when_git_would_correct_them() {
    let world = World::new();
    dirty(&world);
    let argv: Vec<OsString> = [
        "git",
        "-C",
        &world.path("w").to_string_lossy(),
        "-c",
        "help.autocorrect=immediate",
        "chekout",
        ".",
    ]
    .map(OsString::from)
    .to_vec();
    let Verdict::Allow { extra } = judge(&argv, &Env::new(), &world.real()) else {
        panic!("allowed")
    };
    let disarmed = with_extra(&argv, extra);
    world.command(&disarmed[1..]).output().unwrap();
    assert!(!lost_changes(&world), "{disarmed:?}");
    world.command(&argv[1..]).output().unwrap();
    assert!(lost_changes(&world), "git corrects nothing: this test checks nothing");
}

#[test]
fn scratch_is_where_the_repository_lies_not_the_caller() {
    let world = World::new();
    fs::create_dir_all(world.path("scratch")).unwrap();
    fs::create_dir_all(world.path("scratchy")).unwrap();
    world.git("init -q ../scratch/own");
    world.git("init -q --bare ../scratch/bare");
    world.git("init -q ../scratchy/own");
    world.git("init -q ../scratch/moved");
    world.git("-C ../scratch/moved config core.worktree ../../../w");
    world.git("worktree add -q ../scratch/linked topic");
    world.git("clone -q ../remote ../scratch/clone");
    world.git("-C ../scratch/own remote add b ../bare");
    std::os::unix::fs::symlink(world.path("w"), world.path("scratch/link")).unwrap();
    for (line, refused) in [
        ("-C ../scratch/own reset --hard", false),
        ("-C ../scratch/bare update-ref -d refs/heads/x", false),
        ("-C ../scratchy/own reset --hard", true),
        ("-C ../scratch/linked reset --hard", true),
        ("-C ../scratch/link reset --hard", true),
        ("-C ../scratch -C own reset --hard", false),
        ("-C ../scratch/own --git-dir=../../w/.git reset --hard", true),
        ("-C ../scratch/own --work-tree=../../w reset --hard", true),
        ("-C ../scratch/moved reset --hard", true),
        ("-C ../scratch/clone push -f", true),
        ("-C ../scratch/own checkout .", false),
        ("--git-dir=../scratch/own/.git reset --hard", true),
        ("reset --hard", true),
    ] {
        assert_eq!(world.refuses(line), refused, "{line}");
    }
    let bare = world.path("scratch/bare");
    assert!(!world.refuses(&format!("-C ../scratch/own push -f {}", bare.display())));
    let remote = world.path("remote");
    assert!(world.refuses(&format!("-C ../scratch/own push -f {}", remote.display())));
}
