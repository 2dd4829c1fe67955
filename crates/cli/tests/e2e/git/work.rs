//! Everyday git commands work. Commands that destroy work are refused with advice.

use testkit::{World, need};

use crate::probe::sh;

const DAY: &str = "set -e
    echo one > file && git add file && git commit -qm one
    git switch -qc topic && echo two >> file && git commit -qam two
    git switch -q - && echo x > other && git add other && git commit -qm other
    git merge -q --no-edit topic && git log --oneline | wc -l
    echo dirty >> file && git stash -q && git stash apply -q && git commit -qam dirty
    git switch -qc side HEAD~1 && echo s > side && git add side && git commit -qm side
    git rebase -q - && git tag v1 && git branch -d topic && git reset -q --keep HEAD
    git status --short";

/// A project that is a worktree of the repository `main`.
fn worktree() -> World {
    let world = World::new().file("main/readme", "x").git_init("main");
    world
        .clone()
        .cwd("main")
        .host(["git", "worktree", "add", "-q", "../project", "-b", "work"])
        .succeeds();
    world
}

#[test]
fn everyday_git_works_in_a_plain_repository() {
    let world = World::new().file("project/readme", "x").git_init("project");
    world.run(sh(DAY)).succeeds().stderr_lacks("agent-sandbox");
    world.host(["git", "log", "--format=%s", "-1"]).succeeds().stdout("side\n");
    world.host(["git", "fsck", "--strict"]).succeeds();
}

#[test]
fn everyday_git_works_in_a_worktree() {
    let world = worktree();
    world.run(sh(DAY)).succeeds();
    world.host(["git", "log", "--format=%s", "-1"]).succeeds().stdout("side\n");
    world.clone().cwd("main").host(["git", "status", "--short"]).succeeds().stdout("");
}

#[test]
fn worktree_run_cannot_change_the_main_checkout() {
    let world = worktree();
    for tried in [
        "echo x > ../main/readme",
        "echo ref: refs/heads/work > ../main/.git/HEAD",
        "rm -f ../main/.git/index",
    ] {
        world.run(sh(tried)).fails();
        world.host(sh("git -C ../main status --short")).succeeds().stdout("");
    }
}

#[test]
fn worktree_can_be_added_and_used_inside_the_project() {
    let world = World::new().file("project/readme", "x").git_init("project");
    let script = "git worktree add -q trees/a -b a && cd trees/a && echo x > new && git add new && git commit -qm new";
    world.run(sh(script)).succeeds();
    world.host(["git", "log", "--format=%s", "-1", "a"]).succeeds().stdout("new\n");
}

#[test]
fn new_repository_can_be_made_and_cloned_inside() {
    let world = World::new().file("project/readme", "x").git_init("project");
    let script = "git clone -q . copy && cd copy && echo x > y && git add y && git commit -qm y && git push -q origin HEAD:y";
    world.run(sh(script)).succeeds();
    world.host(["git", "log", "--format=%s", "-1", "y"]).succeeds().stdout("y\n");
    world.run(sh("cd /tmp && git init -q r && cd r && touch f && git add f && git commit -qm f && git reset -q --hard")).succeeds();
}

#[test]
fn repository_without_git_and_git_without_repository_are_no_error() {
    let world = World::new().file("project/file", "x");
    world.run(["git", "status"]).code(128).stderr_contains("not a git repository");
    world.run(["git", "--version"]).succeeds();
    let plain = world.git_init("project").env("PATH", "/nowhere");
    plain.run(["/bin/cat", "file"]).succeeds().stdout("x");
}

#[cfg(feature = "setup")]
#[test]
fn commands_that_destroy_work_are_refused_with_advice() {
    need("git");
    let world = World::new().file("project/file", "x").git_init("project");
    for (call, advice) in [
        ("git reset --hard", "git stash push"),
        ("git reset --har", "git stash push"),
        ("git checkout -- file", "git switch"),
        ("git checkout main", "git switch"),
        ("git restore file", "git stash push"),
        ("git clean -fd", "git clean -n"),
        ("git switch -f main", "git stash push"),
        ("git branch -D main", "git branch -d"),
        ("git branch -M other", "git branch"),
        ("git stash drop", "git stash apply"),
        ("git stash clear", "git stash apply"),
        ("git push --force origin main", "--force-with-lease"),
        ("git push origin +main", "--force-with-lease"),
        ("git push origin :main", "--force-with-lease"),
        ("git commit --no-verify -m x", "hook"),
        ("git commit -anm x", "hook"),
        ("git reflog expire --expire=now --all", "git reflog"),
        ("git gc --prune=now", "git gc"),
        ("git update-ref -d refs/heads/main", "git branch -d"),
        ("git -C . reset --hard", "git stash push"),
        ("cd /tmp && git -C \"$OLDPWD\" reset --hard", "git stash push"),
        ("git --git-dir=.git --work-tree=. reset --hard", "git stash push"),
        ("git -c alias.x='reset --hard' x", "git stash push"),
        ("git -c alias.x='!git reset --hard' x", "git stash push"),
        (
            "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='reset --hard' git x",
            "git stash push",
        ),
        ("/usr/bin/env git reset --hard", "git stash push"),
        ("sh -c 'exec git reset --hard'", "git stash push"),
        ("\"$(git --exec-path)/git\" reset --hard", "git stash push"),
        (
            "python3 -c \"import os; os.execvp('git', ['git', 'reset', '--hard'])\"",
            "git stash push",
        ),
    ] {
        world.write("project/file", "work that is not committed");
        let run = world.run(sh(call)).fails();
        run.stderr_contains("is blocked").stderr_contains("hint: ").stderr_contains(advice);
        assert_eq!(world.read("project/file"), "work that is not committed", "{call}");
    }
}

#[test]
fn refused_commands_work_without_the_rule_and_on_the_host() {
    let world = World::new().file("project/file", "x").git_init("project");
    world.write("project/file", "dirty");
    world.run(["--cmd", "git=true", "git", "reset", "-q", "--hard"]).succeeds();
    assert_eq!(world.read("project/file"), "x");
    world.write("project/file", "dirty");
    world.host(["git", "checkout", "-q", "--", "file"]).succeeds();
}

#[test]
fn harmless_commands_that_look_alike_are_not_refused() {
    let world = World::new().file("project/file", "x").git_init("project");
    let script = "set -e
        git commit -q --allow-empty -m 'git reset --hard'
        git log --grep=--hard; git grep -e --force || true
        git reset -q HEAD file; git clean -n; git stash list; git reflog
        git branch -d nothing 2>/dev/null || true; git push --dry-run . HEAD:refs/heads/n
        git help reset >/dev/null 2>&1 || true; git add --force file; git diff -- --hard";
    world.run(sh(script)).succeeds().stderr_lacks("is blocked");
}

#[test]
fn hooks_of_the_project_run_inside() {
    let world = World::new().file("project/file", "x").git_init("project");
    let world = world
        .exec_file("project/.git/hooks/pre-commit", "#!/bin/sh\necho checked; test ! -e bad\n");
    world.run(sh("git commit -q --allow-empty -m x 2>&1")).succeeds().stdout("checked\n");
    world.run(sh("touch bad; git commit -q --allow-empty -m x")).fails();
    world
        .run(sh("touch bad; git commit -q --allow-empty --no-verify -m x"))
        .fails()
        .stderr_contains("is blocked");
    world.host(["git", "commit", "-q", "--allow-empty", "--no-verify", "-m", "x"]).succeeds();
}
