//! New files that git would obey are reverted at the end, or by the next run.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Signal, World, need};

use crate::probe::sh;

fn repository() -> World {
    World::new().file("project/file", "x").git_init("project")
}

/// Program that creates a file in home when it runs.
const EVIL: &str = "#!/bin/sh\ntouch \"$HOME/pwned\"\nexit 0\n";

/// Files that a script plants inside, with the host's command that would obey them.
const PLANTED: &[(&str, &str, &str)] = &[
    (
        "commondir",
        "mkdir -p evil/hooks && cp -r .git/refs .git/objects evil/ && printf '[core]\\nrepositoryformatversion=0\\nfsmonitor=./evil.sh\\n' > evil/config && echo ../evil > .git/commondir",
        "git status",
    ),
    ("hooks", "mkdir -p .git/hooks && cp evil.sh .git/hooks/post-index-change", "git add evil.sh"),
    (
        "nested repository",
        "git init -q n && git -C n config core.fsmonitor ../evil.sh",
        "git -C n status",
    ),
    (
        "nested hooks",
        "git init -q n && mkdir -p n/.git/hooks && cp evil.sh n/.git/hooks/post-index-change",
        "cd n && touch f && git add f",
    ),
];

/// Timestamps advance in ticks, and a run often starts in the tick in which the user wrote a file.
#[test]
fn files_written_just_before_a_run_are_the_users() {
    let world = World::new();
    for round in 0..30 {
        // The first thing that the command does. The control for `.envrc`, and it must never be missed.
        let run =
            format!("echo {round} > .envrc; exec '{}' touch Makefile", world.binary().display());
        let run = world.host(sh(&run)).succeeds();
        run.stderr_contains("Makefile").stderr_lacks(".envrc");
        world.host(["rm", "Makefile"]).succeeds();
    }
}

fn plant(world: &World, script: &str) -> String {
    world.clone().exec_file("project/evil.sh", EVIL);
    format!("rm -rf .git/hooks; {script}")
}

#[test]
fn planted_git_internals_are_moved_aside_and_the_host_is_safe() {
    for (name, script, then) in PLANTED {
        let without = repository();
        without.host(sh("rm -rf .git/hooks")).succeeds();
        without.host(sh(&plant(&without, script))).succeeds();
        without.host(sh(then));
        assert!(without.has("home/pwned"), "the control of {name} shows nothing");

        let world = repository();
        world.host(sh("rm -rf .git/hooks")).succeeds();
        let run = world.run(["--cmd", "git=true"].into_iter().chain(sh(&plant(&world, script))));
        run.succeeds().stderr_contains("moved aside");
        world.host(sh(then));
        assert!(!world.has("home/pwned"), "{name} ran on the host");
        world.host(["git", "status", "--short"]).succeeds();
        world.host(["git", "fsck"]).succeeds();
    }
}

#[test]
fn planted_worktree_settings_are_moved_aside() {
    let world = repository();
    world.host(["git", "config", "extensions.worktreeConfig", "true"]).succeeds();
    let plant = "printf '[core]\\nfsmonitor=./evil.sh\\n' > .git/config.worktree";
    let run = world.run(sh(&format!(
        "printf '{}' > evil.sh; chmod +x evil.sh; {plant}",
        "#!/bin/sh\\ntouch $HOME/pwned\\n"
    )));
    run.succeeds().stderr_contains("config.worktree");
    world.host(["git", "status"]).succeeds();
    assert!(!world.has("home/pwned") && !world.has("project/.git/config.worktree"));
    world.host(sh(plant)).succeeds();
    world.host(["git", "status"]);
    assert!(world.has("home/pwned"));
}

#[test]
fn rebuilt_repository_does_not_take_the_place_of_the_real_one() {
    let world = repository();
    let head = world.host(["git", "rev-parse", "HEAD"]).output();
    let script = "mv .git old; git init -q; git config core.fsmonitor ./evil.sh; true";
    world.run(["--cmd", "git=true"].into_iter().chain(sh(script)));
    world.host(["git", "rev-parse", "HEAD"]).succeeds().stdout(&head);
    world.host(["git", "config", "core.fsmonitor"]).fails();
}

#[test]
fn moved_things_are_kept_where_the_report_says() {
    let world = repository();
    world.host(sh("rm -rf .git/hooks")).succeeds();
    let run = world.run(sh(
        "mkdir .git/hooks && echo precious > .git/hooks/pre-push; chmod +x .git/hooks/pre-push",
    ));
    let messages = run.succeeds().messages();
    let place =
        messages.lines().find_map(|line| line.trim().strip_prefix("now at ")).expect("a place");
    let kept = world.host(["grep", "-r", "precious", place]).succeeds();
    assert!(!world.has("project/.git/hooks/pre-push"), "{kept}");
}

#[test]
fn ordinary_work_is_reported_by_no_word() {
    let world = repository();
    let script = "git switch -qc t && mkdir src && echo x > src/a && git add src && git commit -qm a && git stash list";
    world.run(sh(script)).succeeds().stderr("");
}

#[test]
fn files_that_run_code_later_are_listed() {
    let world = repository().file("project/Makefile", "old:\n");
    let script = "mkdir -p .vscode .husky .github/workflows .claude sub
        echo x > .envrc; echo {} > .vscode/tasks.json; echo x > .husky/pre-commit; echo x > .github/workflows/ci.yml
        echo {} > .claude/settings.json; echo 'new:' > Makefile; echo x > sub/conftest.py; echo x > harmless.txt
        echo '{\"scripts\": {\"postinstall\": \"x\"}}' > package.json";
    let run = world.run(sh(script)).succeeds().stderr_contains("can run code when you use them");
    let messages = run.messages();
    for listed in [
        ".envrc",
        "tasks.json",
        ".husky",
        "ci.yml",
        "settings.json",
        "Makefile",
        "conftest.py",
        "package.json",
    ] {
        assert!(messages.contains(listed), "{listed}: {messages}");
    }
    assert!(!messages.contains("harmless"), "{messages}");
    // Two runs within a clock tick would get the same time.
    thread::sleep(Duration::from_millis(50));
    world.run(["true"]).succeeds().stderr("");
    assert!(world.has("project/.envrc"));
}

/// Waits until no process on the machine has this word in its command line.
#[track_caller]
pub(crate) fn assert_gone(word: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        let found = Command::new(need("pgrep")).args(["-f", word]).output();
        let found = found.expect("`pgrep` runs");
        if found.stdout.is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("something with `{word}` in its command line is still there");
}

#[cfg(feature = "setup")]
#[test]
fn killed_run_is_swept_up_by_the_next_one() {
    let world = repository();
    world.host(sh("rm -rf .git/hooks")).succeeds();
    let unique = format!("{}.5", 4_000_000 + std::process::id());
    let script = format!(
        "mkdir -p .git/hooks; cp evil.sh .git/hooks/post-index-change; echo x > .envrc; echo planted; sleep {unique}"
    );
    let world = world.exec_file("project/evil.sh", EVIL);
    let run = world.spawn(sh(&script));
    run.wait_for("planted");
    run.signal(Signal::KILL);
    run.wait().killed_by(Signal::KILL);
    assert_gone(&unique);
    assert!(world.has("project/.git/hooks/post-index-change"));

    let next = world.run(["git", "add", "evil.sh"]).succeeds();
    let next = next.stderr_contains("moved aside").stderr_contains("earlier run, which was killed");
    next.stderr_contains(".envrc");
    assert!(!world.has("project/.git/hooks/post-index-change") && !world.has("home/pwned"));
    world.run(["true"]).succeeds().stderr("");
}

#[test]
fn killed_run_elsewhere_is_left_to_the_next_run_there() {
    let world = repository().file("other/file", "x");
    world.host(sh("rm -rf .git/hooks")).succeeds();
    let run = world.spawn(sh("mkdir .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-push; chmod +x .git/hooks/pre-push; echo planted; read x"));
    run.wait_for("planted");
    run.signal(Signal::KILL);
    run.wait().killed_by(Signal::KILL);
    world.clone().cwd("other").run(["true"]).succeeds().stderr("");
    assert!(world.has("project/.git/hooks/pre-push"));
    world.run(["true"]).stderr_contains("moved aside");
    assert!(!world.has("project/.git/hooks/pre-push"));
}

#[test]
fn running_neighbour_is_not_taken_for_a_killed_run() {
    let world = repository();
    let mut first = world.spawn(sh("echo up; read x; echo y > made"));
    first.wait_for("up");
    world.run(["true"]).succeeds().stderr("");
    first.send("\n");
    first.wait().succeeds().stderr("");
}
