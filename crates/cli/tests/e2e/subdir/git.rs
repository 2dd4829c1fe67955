//! Git in a sub-directory of a repository: its git directory is writable and protected, the rest stays read-only.

use testkit::{Run, User, World, user};

use crate::probe::{assert_views, sh};

/// A repository with two directories and a branch `other`, which changes both.
fn world() -> World {
    repository("home/app")
}

fn repository(top: &str) -> World {
    let world = World::new()
        .file(format!("{top}/readme"), "one\n")
        .file(format!("{top}/sub/file"), "one\n")
        .file(format!("{top}/sub/deep/file"), "one\n")
        .git_init(top)
        .cwd(top);
    let branches = "set -e
        git switch -qc inside; echo two > sub/file; git commit -qam inside
        git switch -qc outside main; echo two > readme; git commit -qam outside
        git switch -q main";
    world.host(sh(branches)).succeeds();
    world.cwd(format!("{top}/sub"))
}

#[track_caller]
fn git(world: &World, line: &str) -> Run {
    world.run(std::iter::once("git").chain(line.split_whitespace()))
}

const DAY: &str = "set -e
    echo new > new && git add new && git commit -qm new && git commit -q --amend -m newer
    git switch -qc topic && echo two >> new && git commit -qam two
    git switch -q - && git merge -q --no-edit topic && git tag v1 && git branch -d topic
    echo dirty >> new && git stash -q && git stash apply -q && git commit -qam dirty
    git mv new renamed && git rm -q --cached deep/file && git add deep && git commit -qm moved
    git cherry-pick inside && git revert --no-edit HEAD && git reset -q --keep HEAD~1
    git rebase -q inside && git status --short";

#[test]
fn everyday_git_works_in_a_sub_directory() {
    let world = world();
    world.run(sh(DAY)).succeeds().stderr_lacks("agent-sandbox").stdout_lacks("??");
    world.host(["git", "log", "-1", "--format=%s"]).succeeds().stdout_lacks("start");
    world.host(["git", "fsck", "--strict"]).succeeds();
    world.host(["git", "status", "--short"]).succeeds().stdout("");
    assert_eq!(world.read("home/app/readme"), "one\n");
}

#[test]
fn everyday_git_works_in_a_sub_directory_of_a_worktree_and_outside_home() {
    let world = world();
    world
        .clone()
        .cwd("home/app")
        .host(["git", "worktree", "add", "-q", "../tree", "inside"])
        .succeeds();
    let tree = world.cwd("home/tree/sub");
    tree.run(sh("echo x > new && git add new && git commit -qm new")).succeeds();
    tree.host(["git", "log", "-1", "--format=%s"]).succeeds().stdout("new\n");
    let world = repository("work/app");
    world.run(sh("echo x > new && git add new && git commit -qm new")).succeeds();
}

#[test]
fn only_the_git_directory_of_the_repository_is_writable() {
    let world = world();
    assert_views(
        &world,
        &[],
        &[
            ("home/app/sub", "rw"),
            ("home/app/readme", "ro"),
            ("home/app", "ro"),
            ("home/app/.git/HEAD", "rw"),
            ("home/app/.git/config", "ro"),
        ],
    );
    // Without the preset, the git directory stays read-only.
    world.host(["git", "-C", "..", "status", "--short"]).succeeds();
    world.write("home/.config/agent-sandbox/config.toml", "filesystem.presets = ['!@git']\n");
    assert_views(&world, &[], &[("home/app/.git/HEAD", "ro")]);
}

/// Commands that change `readme`, with a set-up on the host.
const OUTSIDE: &[(&str, &str)] = &[
    ("true", "switch outside"),
    ("true", "switch -c new outside"),
    ("true", "switch --detach outside"),
    ("true", "switch --orphan empty"),
    ("true", "merge outside"),
    ("true", "merge --no-commit inside outside"),
    ("true", "rebase outside"),
    ("true", "rebase --onto outside main"),
    ("true", "cherry-pick outside"),
    ("true", "cherry-pick main..outside"),
    ("true", "cherry-pick -n inside outside"),
    ("git switch -q outside", "revert --no-edit HEAD"),
    ("true", "reset --keep outside"),
    ("true", "reset --merge outside"),
    ("echo dirty > ../readme", "stash"),
    ("echo dirty > ../readme", "stash push"),
    ("echo new > ../new", "stash -u"),
    ("echo dirty > ../readme; git stash -q", "stash apply"),
    ("echo dirty > ../readme; git stash -q", "stash branch b"),
    ("true", "pull . outside"),
    ("true", "pull --rebase . outside"),
    ("git format-patch -1 outside --stdout > p", "am p"),
    ("git diff main outside > p", "-C .. apply sub/p"),
    ("true", "rm ../readme"),
    ("true", "rm :/readme"),
    ("true", "mv file .."),
    ("true", "mv ../readme ."),
    ("true", "read-tree -m -u HEAD outside"),
    ("true", "sparse-checkout set sub"),
    ("true", "bisect start outside main"),
    ("git config alias.sw switch", "sw outside"),
    ("true", "-C deep switch outside"),
    ("true", "-C .. switch outside"),
];

#[test]
fn commands_that_would_write_outside_are_refused_before_git_starts() {
    for (prepare, command) in OUTSIDE {
        let world = world();
        world.host(sh(prepare)).succeeds();
        let state = "git status --short; git rev-parse HEAD; git symbolic-ref -q HEAD; git stash list; git diff HEAD";
        let before = world.host(sh(state)).output();
        let run = git(&world, command).code(1);
        run.stderr_contains("read-only in this sandbox").stderr_contains("--repo");
        assert_eq!(world.host(sh(state)).output(), before, "{command}");
        // The remedy works.
        let whole = ["--repo", "git"].into_iter().chain(command.split_whitespace());
        world.run(whole).stderr_lacks("read-only in this sandbox");
    }
}

/// Variants of these commands that write only files of the working directory.
const INSIDE: &[(&str, &str)] = &[
    ("true", "switch inside"),
    ("true", "switch -c new"),
    ("true", "switch -c new inside"),
    ("true", "switch --detach HEAD"),
    ("true", "merge inside"),
    ("true", "rebase inside"),
    ("true", "cherry-pick inside"),
    ("git switch -q inside", "revert --no-edit HEAD"),
    ("true", "reset --keep inside"),
    ("true", "reset --soft outside"),
    ("true", "reset -q outside"),
    ("echo dirty > file", "stash"),
    ("echo new > new", "stash -u"),
    ("echo dirty > file; echo dirty > ../readme", "stash push -- file"),
    ("echo dirty > file; git stash -q", "stash apply"),
    ("git diff main inside > p", "apply -p2 p"),
    ("git diff main outside > p", "-C .. apply --check sub/p"),
    ("true", "rm file"),
    ("true", "mv file deep/moved"),
    ("true", "rm --cached ../readme"),
    ("true", "stash list"),
    ("true", "fetch . outside"),
    ("true", "diff outside"),
    ("true", "pull -h"),
    ("true", "-C deep switch inside"),
    ("git config alias.sw switch", "sw inside"),
];

#[test]
fn commands_that_stay_in_the_directory_run() {
    for (prepare, command) in INSIDE {
        let world = world();
        world.host(sh(prepare)).succeeds();
        let run = git(&world, command);
        run.stderr_lacks("agent-sandbox").stderr_lacks("Read-only");
        world.host(["git", "fsck"]).succeeds();
    }
}

#[test]
fn another_writable_directory_of_the_repository_counts() {
    let world = world().file("home/app/lib/file", "one\n");
    let prepare = "set -e; cd ..; git add lib; git commit -qm lib; git switch -qc wide; echo 2 > lib/file; git commit -qam wide; git switch -q main";
    world.host(sh(prepare)).succeeds();
    git(&world, "switch wide").code(1);
    world.run(["--rw", "../lib", "git", "switch", "-q", "wide"]).succeeds();
    assert_eq!(world.read("home/app/lib/file"), "2\n");
}

#[test]
fn repo_makes_the_whole_repository_writable_and_protects_it() {
    let world = world().file("home/app/tsconfig.json", "{}").file("home/notes", "x");
    assert_views(
        &world,
        &["--repo"],
        &[
            ("home/app/readme", "rw"),
            ("home/app/sub/file", "rw"),
            ("home/app/tsconfig.json", "ro"),
            ("home/app/.git/config", "ro"),
            ("home/notes", "ro"),
        ],
    );
    world.run(["--repo", "git", "switch", "-q", "outside"]).succeeds();
    assert_eq!(world.read("home/app/readme"), "two\n");
    world
        .run(["--repo", "pwd"])
        .succeeds()
        .stdout(&format!("{}\n", world.path("home/app/sub").display()));
    world.run(["--repo=false", "touch", "../made"]).fails();
    world.run(["--repo", "why", "../readme"]).succeeds().stdout_contains("--repo");
}

#[test]
fn repo_needs_a_repository_that_is_the_users_and_not_home() {
    let world = World::new().file("home/app/file", "x").cwd("home/app");
    world.run(["--repo", "true"]).code(125).stderr_contains("not in a git repository");
    let world = world.git_init("home");
    world.run(["--repo", "true"]).code(125).stderr_contains("home directory");
    let world = world.git_init("home/app");
    world.run(["--repo", "true"]).succeeds();
    if user() == User::Root {
        let below = world.clone().dir("home/app/sub").cwd("home/app/sub");
        below.host(["chown", "65533", ".."]).succeeds();
        below.run(["--repo", "true"]).code(125).stderr_contains("another user");
    }
}

#[test]
fn worktree_elsewhere_is_refused_before_git_starts() {
    let world = World::new().file("home/app/readme", "x").git_init("home/app").cwd("home/app");
    for command in [
        "worktree add ../x",
        "worktree add -b new ../x/y main",
        "-C . worktree add ../../x",
        "worktree add /var/x",
    ] {
        let run = git(&world, command).code(1);
        run.stderr_contains("`git worktree add` is blocked").stderr_contains("--rw");
        world.host(["git", "branch", "--list", "new"]).succeeds().stdout("");
        world.host(["git", "worktree", "list"]).succeeds().stdout_lacks("/x");
    }
    git(&world, "worktree add trees/x").succeeds();
    git(&world, "worktree add -h").stderr_lacks("blocked");
    world.host(["mkdir", "../trees"]).succeeds();
    world.run(["--rw", "../trees", "git", "worktree", "add", "../trees/x", "-b", "n"]).succeeds();
    assert!(world.has("home/trees/x/readme"));
}

#[cfg(feature = "sessions")]
#[test]
fn copy_on_write_keeps_commits_in_the_layer_until_they_are_applied() {
    let world = world();
    let commit = "echo new > new && git add new && git commit -qm new";
    world.run(["--cow", "sh", "-c", commit]).succeeds();
    world.host(["git", "log", "-1", "--format=%s"]).succeeds().stdout("start\n");
    assert!(!world.has("home/app/sub/new"));
    world.run(["apply", "--yes"]).succeeds();
    world.host(["git", "log", "-1", "--format=%s"]).succeeds().stdout("new\n");
    world.host(["git", "status", "--short"]).succeeds().stdout("");
    world.host(["git", "fsck"]).succeeds();
}
