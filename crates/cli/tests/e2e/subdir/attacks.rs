//! S3: policies that are planted, dodged or loosened through sub-directories.

use testkit::{Run, World};

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
        ("cp -a own moved".into(), "moved/.agent-sandbox.json"),
        (
            "mkdir deep && ln own/.agent-sandbox.json deep/ || cp own/.agent-sandbox.json deep/"
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
    run.signal(rustix::process::Signal::KILL);
    run.wait();
    world.run(["true"]).succeeds().stderr_contains("moved aside");
    assert!(!world.has("home/app/sub/sandbox.toml"));
}
