//! Blocked commands, under any name.

use testkit::{World, need};

use crate::probe::sh;

fn shim(world: &World) -> String {
    world.write("shim.toml", "launcher = 'shim'\n");
    world.path("shim.toml").display().to_string()
}

/// Both kinds of launcher must behave alike.
#[track_caller]
fn with_both(world: &World, flags: &[&str], check: impl Fn(&dyn Fn(&str) -> testkit::Run)) {
    let config = shim(world);
    check(&|script| world.run(flags.iter().copied().chain(sh(script))));
    let shimmed = ["-c", &config].into_iter().chain(flags.iter().copied());
    check(&|script| world.run(shimmed.clone().chain(sh(script))));
}

#[test]
fn blocked_command_is_refused_by_name_and_by_path() {
    let world = World::new();
    world.host(["wc", "-l", "/etc/passwd"]).succeeds();
    with_both(&world, &["--cmd", "wc=false"], |run: &dyn Fn(&str) -> testkit::Run| {
        for call in [
            "wc -l /etc/passwd",
            "/usr/bin/wc /etc/passwd",
            "/bin/wc",
            "ln -s /usr/bin/wc x; ./x",
            "exec wc",
        ] {
            run(call).code(1).stdout("").stderr_contains("is blocked");
            let _ = std::fs::remove_file(world.path("project/x"));
        }
        run("head -n 1 /etc/passwd").succeeds();
    });
    world.run(["wc", "-l", "/etc/passwd"]).succeeds();
}

#[test]
fn blocked_command_says_who_can_explain_it() {
    let world = World::new();
    let run = world.run(["--cmd", "wc=false", "wc"]).code(1);
    run.stderr_contains("agent-sandbox: command 'wc' is blocked")
        .stderr_contains("why --command wc");
}

#[test]
fn rule_of_a_file_and_of_a_list_on_the_command_line() {
    let world =
        World::new().file("project/sandbox.toml", "commands = { wc = false, tac = false }\n");
    world.run(sh("wc /etc/passwd; tac /etc/passwd")).fails().stdout("");
    world
        .run([
            "--cmd",
            "wc=true",
            "--cmd",
            "tac=true",
            "sh",
            "-c",
            "wc /etc/passwd && tac /etc/passwd",
        ])
        .succeeds();
    let plain = World::new();
    plain
        .run(["--cmd", "wc=false,tac=false", "sh", "-c", "wc /etc/passwd || tac /etc/passwd"])
        .fails()
        .stdout("");
}

#[test]
fn every_program_of_that_name_on_the_path_is_covered() {
    let world = World::new()
        .exec_file("home/one/tool", "#!/bin/sh\necho one\n")
        .exec_file("home/two/tool", "#!/bin/sh\necho two\n");
    let (one, two) = (world.path("home/one"), world.path("home/two"));
    let path = format!("{}:{}:/usr/bin:/bin", one.display(), two.display());
    let world = world.env("PATH", path);
    let both = format!("{}/tool; {}/tool", one.display(), two.display());
    world.run(sh(&both)).succeeds().stdout("one\ntwo\n");
    with_both(&world, &["--cmd", "tool=false"], |run: &dyn Fn(&str) -> testkit::Run| {
        run("tool").code(1);
        run(&both).code(1).stdout("");
    });
}

#[test]
fn blocking_what_everything_is_made_of_does_not_recurse() {
    let world = World::new();
    let config = shim(&world);
    for name in ["sh", "env", "basename", "dash", "cat", "readlink"] {
        let rule = format!("{name}=false");
        for flags in [vec!["--cmd", &rule], vec!["-c", &config, "--cmd", &rule]] {
            let path = format!("/usr/bin/{name}");
            world
                .run(flags.iter().copied().chain([&*path, "-c", "true"]))
                .code(1)
                .stderr_contains("is blocked");
            world
                .run(flags.iter().copied().chain(["bash", "-c", "echo still"]))
                .succeeds()
                .stdout("still\n");
        }
    }
}

#[test]
fn other_name_of_the_same_file_is_blocked_too() {
    need("awk");
    let world = World::new();
    let one = "BEGIN { print 1 }";
    for name in ["awk", "nawk", "/usr/bin/awk", "/usr/bin/nawk"] {
        world.host([name, one]).succeeds().stdout("1\n");
        world.run([name, one]).succeeds().stdout("1\n");
        world
            .run(["--cmd", "awk=false", name, one])
            .code(1)
            .stdout("")
            .stderr_contains("is blocked");
    }
    let real = world.host(["readlink", "-f", "/usr/bin/awk"]).output();
    world.run(["--cmd", "awk=false", real.trim(), one]).code(1).stdout("");
}

#[cfg(feature = "setup")]
#[test]
fn applets_of_one_file_are_ruled_one_by_one() {
    let busybox = need("busybox");
    let world = World::new();
    let busybox = busybox.to_str().unwrap();
    let flags = ["--cmd", "busybox=false"];
    world.run(flags.into_iter().chain([busybox, "echo", "x"])).code(1).stdout("");
    world.run([busybox, "echo", "x"]).succeeds().stdout("x\n");
    world
        .run(flags.into_iter().chain(sh("ls / >/dev/null && echo still")))
        .succeeds()
        .stdout("still\n");
}

#[test]
fn rule_for_a_command_that_is_not_installed_is_no_error() {
    let world = World::new();
    for rule in ["no-such-tool=false", "no-such-tool=true"] {
        world.run(["--cmd", rule, "true"]).succeeds().stderr("");
        world.run(["--cmd", rule, "no-such-tool"]).code(127);
    }
}

#[test]
fn bad_rules_are_refused_before_anything_runs() {
    let world = World::new().file("project/plain", "echo no interpreter\n");
    for (rule, code, why) in [
        ("wc=@gti", 2, "@gti"),
        ("wc=@git", 2, "not `wc`"),
        ("usr/wc=false", 2, "invalid command name"),
        ("wc=missing.sh", 125, "cannot read the wrapper script"),
        ("wc=plain", 125, "does not start with `#!`"),
        ("wc", 2, "wc"),
    ] {
        world.run(["--cmd", rule, "touch", "ran"]).code(code).stderr_contains(why);
        assert!(!world.has("project/ran"), "{rule}");
    }
}
