//! Review of git repositories: shown by commit, applied as a unit.

use testkit::{Run, World, need};

use super::change;

fn repository() -> World {
    need("git");
    World::new().file("project/a", "1\n").git_init("project")
}

fn git(world: &World, script: &str) -> String {
    world.host(["sh", "-ec", script]).succeeds().output()
}

/// Asserts that `git fsck` finds no error in the host's repository.
#[track_caller]
fn is_sound(world: &World) {
    world.host(["git", "fsck", "--strict", "--no-dangling"]).succeeds();
    world.host(["git", "status", "--porcelain"]).succeeds();
}

fn json(run: &Run) -> serde_json::Value {
    serde_json::from_str(&run.output()).expect("the output is JSON")
}

const COMMIT: &str =
    "echo 2 >> a; git commit -qam first; echo n > n; git add n; git commit -qm second";

#[test]
fn diff_shows_commits_and_branches_when_the_session_made_some() {
    let world = repository();
    change(&world, &format!("{COMMIT}; git branch side; git tag v1"));
    let run = world.run(["diff"]).succeeds();
    for text in
        ["# repository .git", ".git/refs/heads/side", ".git/refs/tags/v1", " first\n", " second\n"]
    {
        assert!(run.output().contains(text), "{text}\n{run}");
    }
    assert!(!run.output().contains("a/.git"), "{run}");
    world
        .run(["diff", "--stat"])
        .succeeds()
        .stdout_contains("2 new commits")
        .stdout_lacks("objects");
    let names = world.run(["diff", "--name-only"]).succeeds();
    assert!(names.output().starts_with("a\nn\n.git/refs/heads/"), "{names}");
    let all = json(&world.run(["diff", "--json"]).succeeds());
    assert_eq!(all["changes"].as_array().unwrap().len(), 2, "{all}");
    assert_eq!(all["repositories"][0]["path"], ".git");
    assert_eq!(all["repositories"][0]["refs"][0]["new_commits"], 2);
    assert_eq!(all["repositories"][0]["refs"][0]["commits"][0]["subject"], "second");
    world
        .run(["apply", "--dry-run"])
        .succeeds()
        .stdout_contains("M .git/refs/heads/")
        .stdout_lacks("objects");
}

#[test]
fn git_takes_the_patch_of_a_session_that_made_commits() {
    let world = repository();
    git(&world, "cp -r ../project ../copy");
    change(&world, &format!("{COMMIT}; git config user.name other || true"));
    let line =
        format!("cd ../copy && {} diff -C ../project | git apply -", world.binary().display());
    world.host(["sh", "-ec", &line]).succeeds();
    assert_eq!(world.read("copy/a"), "1\n2\n");
    assert_eq!(world.read("copy/n"), "n\n");
}

#[test]
fn a_repository_is_applied_whole_however_it_is_named() {
    for words in
        [&["apply"][..], &["apply", ".git"], &["apply", ".git/refs"], &["apply", ".git/objects"]]
    {
        let world = repository();
        change(
            &world,
            &format!(
                "{COMMIT}; git switch -qc deep/er; echo x > x; git add x; git commit -qm third; git gc -q"
            ),
        );
        world.run(words).succeeds();
        assert_eq!(
            git(&world, "git log -3 --format=%s deep/er"),
            "third\nsecond\nfirst\n",
            "{words:?}"
        );
        assert_eq!(git(&world, "git branch --show-current"), "deep/er\n");
        is_sound(&world);
        let left = world.run(["diff", "--name-only"]).succeeds();
        assert!(!left.output().contains(".git"), "{words:?}: {left}");
    }
}

#[test]
fn one_question_is_asked_about_a_repository() {
    let world = repository();
    change(&world, COMMIT);
    let mut terminal = world.clone().env("PAGER", "cat").terminal(["apply", "--interactive"]);
    terminal.wait_for("Apply this hunk to a");
    terminal.enter("n");
    terminal.wait_for("Apply n");
    terminal.enter("n");
    terminal.wait_for("second");
    terminal.wait_for("Apply the changes of the repository .git");
    terminal.enter("y");
    terminal.wait().succeeds();
    assert_eq!(git(&world, "git log -1 --format=%s"), "second\n");
    assert_eq!(world.read("project/a"), "1\n");
    is_sound(&world);
}

#[test]
fn commits_of_the_host_are_never_overwritten() {
    let world = repository();
    change(&world, COMMIT);
    git(&world, "echo h > h; git add h; git commit -qm host");
    let run = world.run(["apply"]).code(1);
    assert!(run.messages().contains("also changed on the host"), "{run}");
    assert_eq!(git(&world, "git log -1 --format=%s"), "host\n");
    assert_eq!(world.read("project/a"), "1\n");
    world.run(["apply", "--partial"]).code(1);
    assert_eq!(git(&world, "git log -1 --format=%s"), "host\n");
    assert_eq!(world.read("project/a"), "1\n2\n");
    is_sound(&world);
    // The control: a branch that the host did not change is applied.
    change(&world, "git branch mine; git update-ref HEAD HEAD~2");
    world.run(["apply"]).succeeds();
    assert_eq!(git(&world, "git log -1 --format=%s mine"), "second\n");
    assert_eq!(git(&world, "git log -1 --format=%s; git status --porcelain h"), "host\n");
    is_sound(&world);
}

#[test]
fn refs_are_deleted_renamed_and_packed_like_git_does() {
    let world = repository();
    git(
        &world,
        "git branch a; git branch keep; git branch topic; git tag -m t t1; git pack-refs --all",
    );
    change(
        &world,
        "git branch -d a; git branch a/b; git tag -d t1; git branch topic2 topic; git branch -d topic; \
         git commit -q --amend -m again; git pack-refs --all",
    );
    world.run(["apply"]).succeeds();
    let refs = git(&world, "git for-each-ref --format='%(refname)' | grep -v heads/ma");
    assert_eq!(refs, "refs/heads/a/b\nrefs/heads/keep\nrefs/heads/topic2\n");
    assert_eq!(git(&world, "git log -1 --format=%s"), "again\n");
    is_sound(&world);
    world.run(["undo"]).succeeds();
    let refs = git(&world, "git for-each-ref --format='%(refname)' | grep -v heads/ma");
    assert_eq!(refs, "refs/heads/a\nrefs/heads/keep\nrefs/heads/topic\nrefs/tags/t1\n");
    assert_eq!(git(&world, "git log -1 --format=%s"), "start\n");
    is_sound(&world);
}

#[test]
fn nothing_that_the_session_wrote_into_its_repository_is_obeyed_or_printed() {
    let world = repository();
    let script = "touch PROOF; printf '[core]\\n\\tfsmonitor = touch %s\\n[diff]\\n\\texternal = touch %s\\n' \
        \"$PWD/PROOF\" \"$PWD/PROOF\" > evil; rm PROOF; mkdir in; cd in; git init -q; cat ../evil >> .git/config; \
        echo '* diff=evil filter=evil' > .git/info/attributes; printf '#!/bin/sh\\ntouch ../PROOF\\n' > .git/hooks/post-index-change; \
        chmod +x .git/hooks/post-index-change; echo x > x; git -c core.fsmonitor= add x; \
        git -c core.fsmonitor= commit -qm \"$(printf 'bad \\033[2J subject')\"; chmod +x .git/hooks/post-index-change; rm -f ../PROOF; echo /etc > .git/objects/info/alternates";
    change(&world, script);
    let run = world.run(["diff"]).succeeds();
    assert!(run.output().contains("bad "), "{run}");
    assert!(!run.output().contains('\u{1b}'), "{run}");
    world.run(["apply"]).succeeds();
    assert!(!world.has("project/PROOF"));
    assert!(!world.has("project/in/.git/config") && !world.has("project/in/.git/hooks"));
    assert!(!world.has("project/in/.git/objects/info/alternates"));
    assert_eq!(git(&world, "git -C in log --format=%an"), git(&world, "git log -1 --format=%an"));
    world.host(["git", "-C", "in", "fsck", "--strict"]).succeeds();
}

#[test]
fn broken_objects_never_arrive() {
    for (name, breakage) in [
        ("missing", "rm -f .git/objects/$(git rev-parse HEAD^{tree} | sed 's,..,&/,')"),
        (
            "garbage",
            "f=.git/objects/$(git rev-parse HEAD:a | sed 's,..,&/,'); chmod u+w $f; cp .git/objects/$(git rev-parse HEAD^{tree} | sed 's,..,&/,') $f",
        ),
        ("ref", "echo 1234567890123456789012345678901234567890 > .git/refs/heads/none"),
        ("bad ref", "echo rubbish > .git/refs/heads/none"),
    ] {
        let world = repository();
        change(&world, &format!("echo 2 >> a; git commit -qam inside; {breakage}"));
        world.run(["diff"]).succeeds();
        let run = world.run(["apply"]).succeeds();
        assert!(run.messages().contains("refused"), "{name}: {run}");
        world.host(["git", "rev-parse", "--verify", "-q", "refs/heads/none"]).fails();
        is_sound(&world);
    }
}

#[test]
fn a_repository_that_the_session_made_or_removed_is_a_unit_too() {
    let world = repository();
    git(&world, "git init -q old; cd old; echo o > o; git add o; git commit -qm old");
    change(
        &world,
        "git init -q new; cd new; echo x > x; git add x; git commit -qm made; cd ..; rm -rf old || true",
    );
    let run = world.run(["apply"]).succeeds();
    assert!(run.messages().contains("old/.git"), "{run}");
    assert_eq!(git(&world, "git -C new log --format=%s"), "made\n");
    world.host(["git", "-C", "new", "fsck", "--strict"]).succeeds();
    world.host(["git", "-C", "new", "status", "--porcelain"]).succeeds().stdout("");
    assert_eq!(git(&world, "git -C old log --format=%s"), "old\n");
    world.run(["undo"]).succeeds();
    assert!(!world.has("project/new/.git"));
    world.run(["apply", ".", "old/.git"]).succeeds();
    // Protected files are unchanged.
    assert!(!world.has("project/old/.git/HEAD") && !world.has("project/old/.git/objects"));
    world.run(["undo"]).succeeds();
    assert_eq!(git(&world, "git -C old log --format=%s"), "old\n");
    world.host(["git", "-C", "old", "fsck", "--strict"]).succeeds();
}

#[test]
fn undo_goes_by_what_the_index_says() {
    let world = repository();
    change(&world, COMMIT);
    world.run(["apply"]).succeeds();
    git(&world, "sleep 1; touch a n; git status; git update-index --refresh");
    world.run(["undo"]).succeeds();
    assert_eq!(git(&world, "git log -1 --format=%s; git status --porcelain"), "start\n");
    is_sound(&world);
    // The control: what the host staged is kept.
    world.run(["apply"]).succeeds();
    git(&world, "echo mine > mine; git add mine");
    world.run(["undo"]).code(1).stderr_contains(".git/index");
    world.run(["undo", "--partial"]).code(1);
    assert_eq!(git(&world, "git log -1 --format=%s"), "second\n");
    is_sound(&world);
}

#[test]
fn undo_leaves_a_repository_alone_when_the_host_worked_on_in_it() {
    let world = repository();
    change(&world, COMMIT);
    world.run(["apply"]).succeeds();
    git(&world, "git branch kept; git switch -q kept; git switch -q -");
    world.run(["undo"]).succeeds();
    assert_eq!(
        git(&world, "git log -1 --format=%s kept; git log -1 --format=%s"),
        "second\nstart\n"
    );
    is_sound(&world);
    git(&world, "git reset -q --hard");
    world.run(["apply"]).succeeds();
    git(&world, "echo more > more; git add more; git commit -qm host");
    world.run(["undo", "--partial"]).code(1);
    assert_eq!(git(&world, "git log -1 --format=%s"), "host\n");
    is_sound(&world);
    git(&world, "git reset -q --hard HEAD~1; git gc -q --prune=now");
    is_sound(&world);
}

#[test]
fn commits_wait_when_they_change_what_runs_code_later() {
    let world = repository();
    git(&world, "echo all: > Makefile; git add Makefile; git commit -qm make");
    change(
        &world,
        "git switch -qc clean; echo c > c; git add c; git commit -qm clean; \
         git switch -qc direct; echo evil > .envrc; git add .envrc; git commit -qm evil; \
         git switch -qc gone clean; echo evil > .envrc; git add .envrc; git commit -qm in; git rm -q .envrc; git commit -qm out; \
         git switch -qc merged clean; git merge -q --no-ff -m merge direct; \
         git switch -qc renamed clean; git mv Makefile GNUmakefile; git commit -qm mv; \
         git tag -m tag tagged direct; git switch -q clean; echo x > .envrc; git add .envrc; git stash -q; \
         git switch -qc staged; echo x > .envrc; git add .envrc",
    );
    let run = world.run(["diff"]).succeeds();
    assert!(run.output().contains("changes .envrc: direnv runs it"), "{run}");
    let run = world.run(["apply"]).succeeds();
    for name in
        ["heads/direct", "heads/gone", "heads/merged", "heads/renamed", "tags/tagged", "stash"]
    {
        assert!(run.messages().contains(&format!(".git/refs/{name}")), "{name}: {run}");
    }
    assert!(run.messages().contains(".git/index"), "{run}");
    let refs = git(&world, "git for-each-ref --format='%(refname)' | grep -v heads/ma");
    assert_eq!(refs, "refs/heads/clean\nrefs/heads/staged\n");
    assert!(!git(&world, "git rev-list --objects --all --indexed-objects").contains(".envrc"));
    is_sound(&world);
    world.run(["apply", ".git/refs/heads/direct"]).succeeds();
    assert_eq!(git(&world, "git log -1 --format=%s direct"), "evil\n");
    world.host(["git", "rev-parse", "--verify", "-q", "refs/heads/merged"]).fails();
    world.run(["apply", ".git"]).succeeds();
    git(&world, "git rev-parse merged renamed gone tagged stash");
    is_sound(&world);
}

#[test]
fn every_stash_arrives() {
    let world = repository();
    git(&world, "echo h > a; git stash -q");
    change(&world, "echo one > a; git stash -q; echo two > a; git stash -q");
    world.run(["apply"]).succeeds();
    assert_eq!(git(&world, "git stash list | wc -l"), "3\n");
    git(&world, "git stash show -p stash@{1} | grep -q one");
    is_sound(&world);
}

#[cfg(feature = "setup")]
#[test]
fn a_killed_apply_leaves_a_sound_repository() {
    for at in 1.. {
        let world = repository();
        change(
            &world,
            &format!(
                "{COMMIT}; git switch -qc other; git branch -d $(git rev-parse --abbrev-ref '@{{-1}}')"
            ),
        );
        let run = world.killed_at("renameat2,unlinkat", at, &["apply", "-s", "s"]);
        let whole = run.status().success();
        world.host(["git", "fsck", "--strict", "--no-dangling"]).succeeds();
        world.run(["apply", "-s", "s"]).succeeds();
        assert_eq!(
            git(&world, "git log -1 --format=%s other; git branch --show-current"),
            "second\nother\n"
        );
        is_sound(&world);
        if whole {
            assert!(at > 5, "{at}");
            break;
        }
    }
}

/// Runs a script in the session `s`, with an engine.
fn change_with(world: &World, engine: &str, script: &str) {
    let world = world.clone().without_env("AGENT_SANDBOX_MOUNTS");
    let cow = format!("--cow={engine}");
    world.spawn([&cow, "--session", "s", "sh", "-ec", script]).wait().succeeds();
}

#[cfg(feature = "setup")]
#[test]
fn a_named_branch_arrives_when_the_host_moved_another_one() {
    for engine in ["overlay", "agentfs"] {
        for words in [&["apply", ".git/refs/heads/other"][..], &["apply", "--partial"]] {
            let world = repository();
            change_with(&world, engine, "echo s >> a; git commit -qam s; git branch other");
            git(&world, "echo h > h; git add h; git commit -qm host");
            // The control: without a selection, everything is a conflict.
            world.run(["apply"]).code(1).stderr_contains("also changed on the host");
            git(&world, "! git rev-parse -q --verify other");
            let partial = words.contains(&"--partial");
            world.run(words).code(i32::from(partial));
            let subjects = git(&world, "git log -1 --format=%s other; git log -1 --format=%s");
            assert_eq!(subjects, "s\nhost\n", "{engine}: {words:?}");
            git(&world, "git diff --cached --quiet");
            is_sound(&world);
            world.run(["undo"]).succeeds();
            git(&world, "! git rev-parse -q --verify other");
            is_sound(&world);
        }
    }
}

#[cfg(feature = "setup")]
#[test]
fn undo_works_when_the_host_packed_its_refs_after_the_apply() {
    for engine in ["overlay", "agentfs"] {
        for host in ["git pack-refs --all", "git gc -q"] {
            for packed_before in [false, true] {
                let world = repository();
                if packed_before {
                    git(&world, "git pack-refs --all");
                }
                let before = git(&world, "git for-each-ref");
                change_with(&world, engine, &format!("{COMMIT}; git branch side; git tag v1"));
                world.run(["apply"]).succeeds();
                git(&world, host);
                world.run(["undo"]).succeeds();
                assert_eq!(git(&world, "git for-each-ref"), before, "{engine}: {host}");
                is_sound(&world);
                world.run(["apply"]).succeeds();
                assert_eq!(git(&world, "git log -1 --format=%s side"), "second\n");
            }
        }
    }
}

#[test]
fn undo_names_what_stays_with_a_ref_that_the_host_moved() {
    let world = repository();
    change(&world, &format!("{COMMIT}; git branch side; echo f > f"));
    world.run(["apply"]).succeeds().stderr_contains("Applied 6 changes");
    git(&world, "git branch -qf side HEAD~1");
    let run = world.run(["undo", "--partial"]).code(1);
    for path in [".git/refs/heads/side", ".git/refs/heads/main", ".git/index"] {
        let path = path.replace("main", git(&world, "git branch --show-current").trim());
        assert!(run.messages().contains(&path), "{path}: {run}");
    }
    assert!(!run.messages().contains("objects"), "{run}");
    assert!(run.messages().contains("Reverted 3 changes"), "{run}");
}

#[test]
fn a_merge_that_brings_an_old_held_file_back_is_held() {
    let world = repository();
    git(
        &world,
        "echo old > .envrc; git add .envrc; git commit -qm envrc; git rm -q .envrc; git commit -qm none",
    );
    change(
        &world,
        "main=$(git branch --show-current); git switch -qc side HEAD~1; echo m > m; git add m; git commit -qm m; \
         git switch -qc late $main; git merge -q --no-ff --no-commit side; git branch plain; \
         git show side:.envrc > .envrc; git add .envrc; git commit -qm merge; git switch -q $main",
    );
    let run = world.run(["apply"]);
    assert!(run.messages().contains("held back: .git/refs/heads/late"), "{run}");
    git(&world, "! git rev-parse -q --verify late");
    // The control: a branch without the merge.
    git(&world, "git rev-parse -q --verify plain");
}

#[cfg(feature = "setup")]
#[test]
fn a_new_repository_counts_its_directory_once() {
    for engine in ["overlay", "agentfs"] {
        let world = World::new().file("project/a", "1\n");
        need("git");
        change_with(
            &world,
            engine,
            "mkdir sub; cd sub; git init -q; echo x > x; git add x; git -c user.name=n -c user.email=e commit -qm x",
        );
        let run = world.run(["apply", "--dry-run"]).succeeds();
        let lines = run.output().lines().filter(|line| *line == "A sub").count();
        assert_eq!(lines, 1, "{engine}: {run}");
    }
}

#[test]
fn a_shallow_fetch_in_the_session_is_refused_with_a_way_out() {
    let world = repository();
    git(
        &world,
        "git init -q ../far; cd ../far; for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done",
    );
    git(&world, "mv ../far far");
    change(&world, "git fetch -q --depth 1 file://$PWD/far HEAD:refs/heads/far");
    let run = world.run(["apply"]);
    assert!(run.messages().contains("--unshallow"), "{run}");
    is_sound(&world);
}

#[test]
fn a_symbolic_ref_waits_for_its_target_and_is_refused_without_one() {
    let world = repository();
    git(&world, "git branch used; git symbolic-ref refs/heads/user refs/heads/used");
    let world = world.without_env("AGENT_SANDBOX_MOUNTS");
    let free = ["--cow", "--session", "s", "--cmd", "git=true", "sh", "-ec"];
    let script = "git checkout -qb held; echo x > .envrc; git add .envrc; git commit -qm held; git checkout -q main; \
        git symbolic-ref refs/heads/follows refs/heads/held; git symbolic-ref refs/heads/again refs/heads/follows; \
        git symbolic-ref refs/heads/none refs/heads/nothing; git symbolic-ref refs/heads/round refs/heads/round; \
        git symbolic-ref refs/heads/sound refs/heads/main; git update-ref -d refs/heads/used";
    world.run([&free[..], &[script]].concat()).succeeds();
    let run = world.run(["apply"]).succeeds();
    for text in [
        "follows  unchanged until `refs/heads/held` is applied",
        "again  unchanged until `refs/heads/held` is applied",
        "refused: .git/refs/heads/none  points to `refs/heads/nothing`, which does not exist",
        "refused: .git/refs/heads/round  points to `refs/heads/round`, which does not exist",
        "refused: .git/refs/heads/used  `refs/heads/user` points to it",
        "held back: .git/refs/heads/held",
    ] {
        assert!(run.messages().contains(text), "{text}\n{run}");
    }
    is_sound(&world);
    assert_eq!(git(&world, "git rev-parse sound user"), git(&world, "git rev-parse main main"));
    world.run(["apply", ".git/refs/heads/held"]).succeeds();
    world.run(["apply"]).succeeds();
    is_sound(&world);
    assert_eq!(git(&world, "git rev-parse follows again"), git(&world, "git rev-parse held held"));
}
