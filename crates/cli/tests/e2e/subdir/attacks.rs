//! S3: policies that are planted, dodged or loosened through sub-directories.

use testkit::{Run, Signal, World};

use crate::probe::sh;

const WIDE: &str = r#"{ "filesystem": { "rw": ["~"] } }"#;

/// A project with a policy at its top and a directory with a policy of its own.
fn world() -> World {
    World::new()
        .file("home/app/sandbox.toml", "commands.wc = false\n")
        .file("home/app/sub/file", "x")
        .file("home/app/own/.agent-sandbox.json", "{}")
        .cwd("home/app")
}

#[track_caller]
fn inside(world: &World, script: &str) -> Run {
    world.run(sh(script))
}

#[test]
fn s3_a_policy_planted_anywhere_below_is_moved_aside() {
    let world = world();
    for (script, planted) in [
        (format!("echo '{WIDE}' > sub/.agent-sandbox.json"), "sub/.agent-sandbox.json"),
        ("mkdir -p a/b/c && echo > a/b/c/sandbox.toml".into(), "a/b/c/sandbox.toml"),
        (
            "mkdir -p node_modules/x && echo > node_modules/x/sandbox.toml".into(),
            "node_modules/x/sandbox.toml",
        ),
        ("ln -s ../../elsewhere sub/sandbox.toml".into(), "sub/sandbox.toml"),
        (
            "ln -s ../own/.agent-sandbox.json sub/.agent-sandbox.json".into(),
            "sub/.agent-sandbox.json",
        ),
        ("mkfifo sub/.agent-sandbox.jsonc".into(), "sub/.agent-sandbox.jsonc"),
        ("echo > x && mv x sub/sandbox.toml".into(), "sub/sandbox.toml"),
        ("mkdir -p moved && cp -a own/. moved".into(), "moved/.agent-sandbox.json"),
        (
            "mkdir -p deep && ln own/.agent-sandbox.json deep/ || cp own/.agent-sandbox.json deep/"
                .into(),
            "deep/.agent-sandbox.json",
        ),
    ] {
        let run = inside(&world, &script).succeeds();
        run.stderr_contains("moved aside").stderr_contains("the next sandbox here would read it");
        assert!(!world.has(format!("home/app/{planted}")), "{script}");
        // The control: without a sandbox, the file stays.
        world.host(sh(&script)).succeeds();
        assert!(world.has(format!("home/app/{planted}")), "{script}");
        world.host(["rm", "-rf", planted, "moved", "deep", "a"]).succeeds();
    }
    world.clone().cwd("home/app/sub").run(["true"]).succeeds();
}

#[test]
fn s3_a_policy_is_planted_in_another_writable_directory_in_vain() {
    let world = world().file("home/lib/src/file", "x");
    let script = "echo > ~/lib/sandbox.toml; echo > ~/lib/src/sandbox.toml";
    world.run(["--rw", "~/lib", "sh", "-c", script]).succeeds().stderr_contains("moved aside");
    assert!(!world.has("home/lib/sandbox.toml") && !world.has("home/lib/src/sandbox.toml"));
}

#[test]
fn s3_a_policy_below_is_read_only_and_cannot_be_replaced() {
    let world = world();
    // The second run knows the file from the scan of the first one.
    for _ in 0..2 {
        for attack in [
            format!("echo '{WIDE}' > own/.agent-sandbox.json"),
            "rm own/.agent-sandbox.json".into(),
            "mv own/.agent-sandbox.json x".into(),
            "echo x > y && mv y own/.agent-sandbox.json".into(),
            "ln -sf /etc/passwd own/.agent-sandbox.json".into(),
        ] {
            inside(&world, &attack).fails();
            assert_eq!(world.read("home/app/own/.agent-sandbox.json"), "{}", "{attack}");
        }
    }
    inside(&world, "rm -f own/.agent-sandbox.json; echo x > own/other").succeeds();
    assert_eq!(world.read("home/app/own/.agent-sandbox.json"), "{}");
    world.host(["rm", "own/.agent-sandbox.json"]).succeeds();
}

#[test]
fn s3_a_policy_that_git_brought_stays_and_opens_nothing() {
    let world = world().git_init("home/app");
    let script = format!(
        "git switch -qc topic && echo '{WIDE}' > sub/.agent-sandbox.json && git add . && git commit -qm x &&
         git switch -q main && git switch -q topic"
    );
    let run = inside(&world, &script).succeeds().stderr_contains("git tracks it");
    run.stderr_lacks("moved aside");
    assert!(world.has("home/app/sub/.agent-sandbox.json"));
    let below = world.clone().cwd("home/app/sub");
    below.run(["true"]).code(125).stderr_contains("is not trusted");
    // Other content than git's is moved aside.
    world.host(["git", "switch", "-q", "main"]).succeeds();
    let script = "git switch -q topic && echo '{}' > sub/.agent-sandbox.json";
    inside(&world, script).succeeds().stderr_contains("moved aside");
    below.run(["true"]).succeeds();
}

#[test]
fn s3_a_nested_repository_does_not_end_the_search() {
    for top in ["home/app", "work/app"] {
        let world = World::new()
            .file(format!("{top}/sandbox.toml"), "commands.wc = false\n")
            .file(format!("{top}/sub/deep/file"), "x")
            .git_init(top);
        for plant in [
            "git init -q sub",
            "git init -q sub/deep",
            "echo gitdir: ../.git > sub/.git",
            "mkdir -p sub/.git",
        ] {
            world.clone().cwd(top).run(sh(plant)).succeeds();
            let below = world.clone().cwd(format!("{top}/sub/deep"));
            below.run(["wc", "file"]).code(1).stderr_contains("blocked");
            world.clone().cwd(top).host(["rm", "-rf", "sub/.git", "sub/deep/.git"]).succeeds();
        }
        // The control: without the file above.
        world.clone().cwd(top).host(["rm", "sandbox.toml"]).succeeds();
        world.clone().cwd(format!("{top}/sub/deep")).run(["wc", "file"]).succeeds();
    }
}

#[test]
fn s3_a_killed_run_leaves_no_policy_for_the_next_one() {
    let world = world();
    let run = world.spawn(sh("echo > sub/sandbox.toml; echo planted; exec sleep 60"));
    run.wait_for("planted");
    run.signal(Signal::KILL);
    run.wait();
    world.run(["true"]).succeeds().stderr_contains("moved aside");
    assert!(!world.has("home/app/sub/sandbox.toml"));
}

/// A repository whose directory `sub` is the working directory.
fn enclosed() -> World {
    World::new()
        .file("home/app/readme", "x")
        .file("home/app/sub/file", "x")
        .git_init("home/app")
        .cwd("home/app/sub")
}

#[test]
fn g1_g2_settings_and_hooks_of_the_repository_above_are_protected() {
    let world = enclosed();
    for attack in [
        "echo x > ../.git/hooks/pre-commit",
        "echo x >> ../.git/config",
        "mv ../.git/config ../.git/x",
        "mv ../.git ../x",
        "rm -rf ../.git/hooks && mkdir ../.git/hooks && echo x > ../.git/hooks/pre-commit",
        "echo x > ../readme",
        "echo x > ../new",
        "git config core.fsmonitor x",
    ] {
        inside(&world, attack).fails();
    }
    assert_eq!(world.read("home/app/readme"), "x");
    for (plant, path) in [
        ("echo .. > ../.git/commondir", ".git/commondir"),
        (
            "mkdir -p ../.git/info && echo '* filter=x' > ../.git/info/attributes",
            ".git/info/attributes",
        ),
        ("echo /etc > ../.git/objects/info/alternates", ".git/objects/info/alternates"),
        (
            "git init -q --bare ../.git/modules/x && git -C ../.git/modules/x config core.fsmonitor x",
            ".git/modules/x/config",
        ),
    ] {
        inside(&world, plant).succeeds().stderr_contains("moved aside");
        assert!(!world.has(format!("home/app/{path}")), "{plant}");
        world.host(["git", "status"]).succeeds();
    }
}

#[test]
fn g6_a_killed_run_in_one_directory_is_finished_by_a_run_in_another() {
    let world = enclosed().file("home/app/other/file", "x");
    let run = world.spawn(sh("echo .. > ../.git/commondir; echo planted; exec sleep 60"));
    run.wait_for("planted");
    run.signal(Signal::KILL);
    run.wait();
    world.clone().cwd("home/app/other").run(["true"]).succeeds().stderr_contains("moved aside");
    assert!(!world.has("home/app/.git/commondir"));
}

#[test]
fn a_repository_at_home_or_above_stays_read_only() {
    for top in ["home", "."] {
        let world = World::new().file("home/app/file", "x").git_init(top).cwd("home/app");
        let head = world.path(top).join(".git/HEAD").display().to_string();
        world.host(["test", "-w", &head]).succeeds();
        world.run(["test", "-w", &head]).fails();
        world.run(sh("echo y > new; git add new")).fails();
    }
}

#[test]
fn g6_a_planted_pointer_opens_no_other_repository() {
    let victim = |world: World| world.file("home/victim/readme", "x").git_init("home/victim");
    for plant in [
        "ln -s ../../victim/.git .git",
        "echo gitdir: ../../victim/.git > .git",
        "mkdir .git && cp -r ../../victim/.git/. .git && echo ../../../victim/.git > .git/commondir",
    ] {
        let world = victim(World::new().file("home/app/deep/file", "x")).cwd("home/app");
        // As an earlier run with other rules could have left it.
        world.host(sh(&format!("mkdir x && cd x && {plant} && mkdir below"))).succeeds();
        let below = world.clone().cwd("home/app/x/below");
        for flags in [&[][..], &["--repo"]] {
            for file in [".git/HEAD", ".git/index", "readme"] {
                let file = world.path("home/victim").join(file).display().to_string();
                let tried = ["test", "-w", &file];
                below.run(flags.iter().copied().chain(tried)).fails();
                below.host(tried).succeeds();
            }
        }
    }
}

#[test]
fn repo_follows_the_place_of_the_repository_and_no_setting() {
    let world = enclosed().file("home/secret/file", "x");
    world.host(["git", "config", "core.worktree", "../../secret"]).succeeds();
    let file = world.path("home/secret/file").display().to_string();
    world.run(["--repo", "test", "-w", &file]).fails();
    world.run(["--repo", "test", "-w", "../readme"]).succeeds();
    // A nested repository narrows what the flag opens.
    world.host(["git", "init", "-q", "."]).succeeds();
    let below = world.clone().dir("home/app/sub/deep").cwd("home/app/sub/deep");
    below.run(["--repo", "test", "-w", "../file"]).succeeds();
    below.run(["--repo", "test", "-w", "../../readme"]).fails();
}

#[test]
fn g6_hostile_worktrees_of_the_repository_open_nothing() {
    let world = enclosed().file("home/victim/readme", "x").git_init("home/victim");
    let plant = "set -e; mkdir -p ../.git/worktrees/evil; cd ../.git/worktrees/evil
        echo ../../../../victim/.git > gitdir; echo ../../../../victim/.git > commondir
        echo ref: refs/heads/main > HEAD";
    world.host(sh(plant)).succeeds();
    for flags in [&[][..], &["--repo"]] {
        for file in ["readme", ".git/HEAD", ".git/config"] {
            let file = world.path("home/victim").join(file).display().to_string();
            let tried = ["test", "-w", &file];
            world.run(flags.iter().copied().chain(tried)).fails();
            world.host(tried).succeeds();
        }
    }
    // As a run leaves it: the worktree is moved aside, and the host's git is safe.
    world.host(["rm", "-rf", "../.git/worktrees"]).succeeds();
    inside(&world, plant).succeeds().stderr_contains("moved aside");
    world.host(["git", "status"]).succeeds();
}
