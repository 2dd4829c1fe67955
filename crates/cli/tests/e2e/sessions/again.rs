//! `up` for an existing session: with the same request, with another one, and with a layer to continue.

use testkit::World;

use super::{Up, inside, supervisor, told, up};

#[test]
fn up_is_idempotent_and_changes_a_running_session_only_by_recreate() {
    let world = World::new();
    let _guard = up(&world, &[]);
    let (id, first) = (told(&world, "id"), supervisor(&world));
    world.run(["up"]).succeeds().stderr_contains("is already running");
    assert_eq!((told(&world, "id"), supervisor(&world)), (id.clone(), first.clone()));
    // C9: a sandbox never silently continues under another policy.
    let refused = world.run(["--network=false", "up"]).code(125);
    refused.stderr_contains("network: on → off").stderr_contains("--recreate");
    assert_eq!(supervisor(&world), first);
    let recreated = world.run(["--network=false", "up", "--recreate"]).succeeds();
    recreated
        .stderr_contains("settings changed (network: on → off); session `project` was recreated");
    assert_eq!(told(&world, "id"), id);
    let second = supervisor(&world);
    assert_ne!(second, first);
    let interfaces = inside("grep -c : /proc/net/dev");
    world.run(interfaces).succeeds().stdout("1\n");
    // Fewer flags do not widen a running sandbox.
    world.run(["up"]).code(125).stderr_contains("network: off → on");
    assert_eq!(supervisor(&world), second);
    world
        .run(["--network=false", "up", "--recreate"])
        .succeeds()
        .stderr_contains("already running");
    assert_eq!(supervisor(&world), second);
    // A stopped session takes the new request.
    world.run(["down"]).succeeds();
    world.run(["up"]).succeeds().stderr_lacks("recreated");
    assert_ne!(world.run(interfaces).succeeds().output(), "1\n");
}

#[test]
fn up_again_tells_what_differs_and_never_a_value_of_a_variable() {
    let world = World::new().dir("home/notes").file("project/sandbox.toml", "network = false\n");
    let _guard = up(&world, &["--env", "TOKEN=first", "--ro", "~/notes"]);
    let first = supervisor(&world);
    for (flags, said) in [
        (&["--env", "TOKEN=first"][..], "paths: ro ~/notes → none"),
        (&["--env", "TOKEN=first", "--rw", "~/notes"], "paths: ro ~/notes → rw ~/notes"),
        (&["--env", "TOKEN=second", "--ro", "~/notes"], "env.TOKEN: changed"),
        (&["--ro", "~/notes"], "env.TOKEN: removed"),
        (&["--env", "TOKEN=first", "--env", "MORE", "--ro", "~/notes"], "env.MORE: added"),
        (&["--env", "TOKEN=first", "--ro", "~/notes", "--cmd", "ls=false"], "commands.ls: none → "),
        (&["--env", "TOKEN=first", "--ro", "~/notes", "--cow"], "cow.engine: off → on"),
    ] {
        let run = world.run(flags.iter().copied().chain(["up"])).code(125);
        run.stderr_contains(said).stderr_lacks("second").stderr_lacks("first");
        assert_eq!(supervisor(&world), first, "{flags:?}");
    }
    // The same settings, written differently and on another line.
    world.write("project/sandbox.toml", "# a remark\n\nnetwork = 'none'\n");
    let words = ["--network=false", "--env", "TOKEN=first", "--ro", "~/notes", "up"];
    world.run(words).succeeds().stderr_contains("is already running");
    assert_eq!(supervisor(&world), first);
    world.write("project/sandbox.toml", "network = true\n");
    let differs = world.run(["--env", "TOKEN=first", "--ro", "~/notes", "up"]).code(125);
    differs.stderr_contains("network: off → on");
    assert_eq!(supervisor(&world), first);
}

#[cfg(feature = "setup")]
#[test]
fn up_goes_on_with_the_changes_that_a_session_keeps_apart() {
    let world = World::new().file("project/a", "one\n");
    let _guard = Up(&world);
    let sh = |name: &str, script: &str| world.run(["exec", "-s", name, "sh", "-c", script]);
    for (name, first, again) in [
        ("fix", &["--cow", "up", "--name", "fix"][..], &["up", "--name", "fix"][..]),
        ("project", &["--cow", "up"], &["up"]),
        ("all", &["--cow=all", "up", "--name", "all"], &["up", "--name", "all"]),
        ("db", &["--cow=agentfs", "up", "--name", "db"], &["up", "--name", "db"]),
    ] {
        world.run(first).succeeds();
        sh(name, "echo two > a").succeeds();
        // While it is up, `up` means the same session.
        world.run(again).succeeds().stderr_contains("is already running");
        world.run(["down", name]).succeeds();
        world.run(again).succeeds().stderr_contains("continues with the changes");
        sh(name, "cat a; echo three > a").succeeds().stdout("two\n");
        assert_eq!(world.read("project/a"), "one\n", "{name}");
        world.run(["restart", name]).succeeds();
        sh(name, "cat a").succeeds().stdout("three\n");
        world.run(["down", name]).succeeds();
        let refused = world.run(["--cow=false"].iter().chain(again)).code(125);
        refused
            .stderr_contains("without its copy-on-write layer")
            .stderr_contains("1 file changed");
        let list = world.run(["ps"]).succeeds().output();
        assert_eq!(list.matches(&format!("\n{name} ")).count(), 1, "{list}");
    }
    assert_eq!(world.read("project/a"), "one\n");
    // A layer that a single command created belongs to the session of that name, too.
    world.run(["--session", "run", "sh", "-c", "echo two > a"]).succeeds();
    world.run(["up", "--name", "run"]).succeeds();
    sh("run", "cat a").succeeds().stdout("two\n");
    world.run(["down", "run"]).succeeds();
    // The control: without changes, the layer may be dropped.
    world.run(["discard", "-s", "run", "--yes"]).succeeds();
    world.run(["--cow=false", "up", "--name", "run"]).succeeds();
    sh("run", "echo four > a").succeeds();
    assert_eq!(world.read("project/a"), "four\n");
}

#[cfg(feature = "setup")]
#[test]
fn another_engine_is_refused_and_the_next_up_continues() {
    // One of the engines is the overlay, which bubblewrap cannot mount.
    let world = World::new().file("project/a", "one\n").without_env("AGENT_SANDBOX_MOUNTS");
    let _guard = Up(&world);
    for (name, made, other) in [("over", "overlay", "agentfs"), ("db", "agentfs", "overlay")] {
        let (made, other) = (format!("--cow={made}"), format!("--cow={other}"));
        world.run([&made, "--session", name, "sh", "-c", "echo two > a"]).succeeds();
        for again in [&[][..], &["--recreate"]] {
            let refused = world.run([&[&other, "up", "--name", name], again].concat()).code(125);
            refused.stderr_contains(" uses ").stderr_contains(&format!("pass `{made}`"));
            world.run(["up", "--name", name]).succeeds();
        }
        world.run(["exec", "-s", name, "cat", "a"]).succeeds().stdout("two\n");
    }
    assert_eq!(world.read("project/a"), "one\n");
}

#[test]
fn up_without_a_name_continues_with_the_layer_of_the_name_that_it_gets() {
    let world = World::new().file("project/a", "one\n");
    let _guard = Up(&world);
    let listed = || world.run(["ps"]).succeeds().output().matches("\nproject ").count();
    // The control: a layer of another name belongs to another session.
    world.run(["--session", "other", "sh", "-c", "echo two > a"]).succeeds();
    world.run(["up"]).succeeds().stderr_lacks("continues");
    world.run(inside("cat a")).succeeds().stdout("one\n");
    world.run(["down"]).succeeds();
    // The directory's own session is recorded as stopped and without a layer, or not recorded.
    for (begin, recorded) in
        [(&["--cow", "--session", "project"][..], true), (&["--session", "project"], false)]
    {
        if !recorded {
            world.run(["rm", "--yes", "project"]).succeeds();
        }
        world.run(begin.iter().copied().chain(["sh", "-c", "echo two > a"])).succeeds();
        world.run(["up"]).succeeds().stderr_contains("continues with the changes in its layer");
        world.run(inside("cat a; echo three >> a")).succeeds().stdout("two\n");
        assert_eq!((world.read("project/a"), listed()), ("one\n".into(), 1), "{recorded}");
        world.run(["down"]).succeeds();
        world
            .run(["--cow=false", "up"])
            .code(125)
            .stderr_contains("without its copy-on-write layer");
    }
}

#[test]
fn a_layer_of_the_configuration_is_kept_when_the_configuration_drops_it() {
    let world =
        World::new().file("project/a", "one\n").file("project/sandbox.toml", "cow = true\n");
    let _guard = up(&world, &[]);
    world.run(inside("echo two > a")).succeeds();
    world.write("project/sandbox.toml", "tmp = 'private'\n");
    world.run(["restart"]).succeeds().stderr_contains("continues with the changes");
    world.run(inside("cat a")).succeeds().stdout("two\n");
    assert_eq!(world.read("project/a"), "one\n");
}
