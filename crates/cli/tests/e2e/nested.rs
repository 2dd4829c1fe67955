//! Nested sandboxes, to any depth. An inner one can only be stricter.

use testkit::{Run, World};

use crate::probe::sh;

const INNER: &str = "agent-sandbox";

/// Runs a script in a sandbox with the inner flags, in a sandbox with the outer flags.
fn nested(world: &World, outer: &[&str], inner: &[&str], script: &str) -> Run {
    let words = outer.iter().chain(&[INNER]).chain(inner).copied();
    world.run(words.chain(sh(script)).collect::<Vec<_>>())
}

#[test]
fn three_sandboxes_deep_everything_still_holds() {
    let world =
        World::new().file("home/.netrc", "secret").file("project/f", "x").git_init("project");
    let deep = |script| world.run([INNER, INNER].into_iter().chain(sh(script)));
    deep("agent-sandbox check && touch made && pwd").succeeds().stdout_contains("inside sandbox\n");
    assert!(world.has("project/made"));
    deep("cat ~/.netrc").stdout("");
    deep("touch ~/x").fails();
    deep("echo x >> .git/config").fails();
    deep("git reset --hard").fails().stderr_contains("is blocked");
    deep("git add made && git commit -qm made").succeeds();
    deep("exit 42").code(42);
    deep("kill -TERM $$").code(143);
    world.host(["git", "log", "--format=%s", "-1"]).succeeds().stdout("made\n");
}

#[test]
fn inner_sandbox_cannot_open_what_the_outer_one_closed() {
    let world = World::new()
        .file("home/.netrc", "secret")
        .file("home/diary", "dear")
        .file("project/keep", "x")
        .file("project/.env", "secret")
        .file("outside/file", "x");
    let outside = world.path("outside").display().to_string();
    let outer = ["--ro", "keep", "--exclude", ".env", "--exclude", "~/diary"];
    for (inner, script) in [
        (["--ro", "!keep", "--rw", "keep"], "echo y > keep"),
        (["--exclude", "!.env", "--rw", ".env"], "grep secret .env"),
        (["--exclude", "!~/diary", "--rw", "~/diary"], "grep dear ~/diary"),
        (["--exclude", "!~/.netrc", "--ro", "~/.netrc"], "grep secret ~/.netrc"),
        (["--ro", "!~", "--rw", "~"], "touch ~/x"),
        (["--rw", &outside, "--ro", "!~"], "touch ../outside/x"),
    ] {
        nested(&world, &outer, &inner, script).fails().stdout_lacks("secret").stdout_lacks("dear");
        // In a single sandbox the same flags take effect.
        world.run(inner.into_iter().chain(sh(script))).succeeds();
        let _ = std::fs::remove_file(world.path("home/x"));
        let _ = std::fs::remove_file(world.path("outside/x"));
    }
}

#[test]
fn inner_sandbox_can_close_more() {
    let world = World::new().file("project/keep", "x").file("project/.env", "secret");
    let inner = ["--ro", "keep", "--exclude", ".env", "--network=false"];
    nested(&world, &[], &inner, "echo y > keep").fails();
    nested(&world, &[], &inner, "grep secret .env").fails();
    nested(&world, &[], &inner, "ls /sys/class/net; touch made").succeeds();
    nested(&world, &[], &[], "grep secret .env && echo y > keep").succeeds();
}

#[test]
fn inner_sandbox_cannot_turn_the_network_on() {
    let world = World::new();
    let links = "cat /proc/net/dev | grep -c :";
    nested(&world, &["--network=false"], &["--network"], links).succeeds().stdout("1\n");
    let host = world.host(sh(links)).output();
    nested(&world, &[], &[], links).succeeds().stdout(&host);
}

#[test]
fn inner_command_rules_add_to_the_outer_ones() {
    let world = World::new().exec_file("project/wrap.sh", "#!/bin/sh\necho wrapped\n");
    let outer = ["--cmd", "wc=false", "--cmd", "tac=wrap.sh"];
    for inner in [&[][..], &["--cmd", "wc=true", "--cmd", "tac=true", "--cmd", "git=true"]] {
        nested(&world, &outer, inner, "wc /etc/passwd").code(1).stderr_contains("is blocked");
        nested(&world, &outer, inner, "tac /etc/passwd").succeeds().stdout("wrapped\n");
        nested(&world, &outer, inner, "git reset --hard").fails();
    }
    nested(&world, &[], &["--cmd", "wc=false"], "wc").code(1).stderr_contains("is blocked");
    nested(&world, &[], &["--cmd", "tac=wrap.sh"], "tac /etc/passwd")
        .succeeds()
        .stdout("wrapped\n");
    nested(&world, &outer, &["--cmd", "tac=false"], "tac").code(1);
}

#[test]
fn trust_cannot_be_given_from_inside() {
    let world = World::new().file("project/sandbox.toml", "filesystem.rw = ['~']\n");
    world
        .run(["--trust", INNER, "trust"])
        .code(125)
        .stderr_contains("only works outside the sandbox");
    world.run(["trust"]).succeeds();
}
