//! Systems on which no overlay can be mounted, and full disks.

use testkit::{Run, World, need};

use super::{cow, place};

/// Runs a script in namespaces in which it may mount.
#[track_caller]
fn with_mounts(world: &World, script: &str) -> Run {
    need("unshare");
    let binary = world.binary().to_str().expect("a text");
    let script = format!("set -e; as={binary}; {script}");
    world.host(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", &script])
}

#[test]
fn a_directory_with_a_mount_in_it_is_refused_with_the_reason() {
    let world = place().dir("project/sub").dir("project/other");
    let refused =
        with_mounts(&world, "mount -t tmpfs none sub; $as --cow=overlay touch sub/x").code(125);
    refused.stderr_contains("cannot isolate changes in").stderr_contains("project/sub` is mounted");
    with_mounts(&world, "mount -t tmpfs none sub; cd other; $as --cow touch x").succeeds();
    world.run(["ps"]).stdout_lacks("project-1").stdout_contains("other-1");
}

const OPEN_HOME: [&str; 4] = ["--ro", "!~", "--rw", "~"];

#[test]
fn a_directory_that_holds_the_layers_is_refused() {
    let world = place().file("home/f", "1").cwd("home");
    let refused = world
        .run([&["--cow=overlay"], &OPEN_HOME[..], &["sh", "-c", "echo 2 > ~/f"]].concat())
        .code(125);
    refused.stderr_contains("contains the session data").stderr_contains("XDG_DATA_HOME");
    assert_eq!(world.read("home/f"), "1");
    let elsewhere = world.clone().env("XDG_DATA_HOME", world.path("data"));
    cow(&elsewhere, &OPEN_HOME, "echo 2 > ~/f; cat ~/f").succeeds().stdout("2\n");
    assert_eq!(world.read("home/f"), "1");
}

#[test]
fn fs12_a_full_disk_is_an_error_to_the_command_and_damages_nothing() {
    let world = place().file("project/a", "one\n").dir("data");
    let data = world.path("data");
    let script = format!(
        "mount -t tmpfs -o size=2m none {data}; export XDG_DATA_HOME={data}; \
         $as -s fix sh -c 'echo two >> a; head -c 9000000 /dev/zero > big' || echo failed with $?; \
         $as -s fix sh -c 'cat a; rm -f big; echo three >> a'; \
         $as -s fix cat a; $as ps",
        data = data.display()
    );
    let run = with_mounts(&world, &script).succeeds();
    run.stdout_contains("failed with 1\none\ntwo\none\ntwo\nthree\n")
        .stderr_contains("No space left on device")
        .stdout_contains("stopped");
    assert_eq!(world.read("project/a"), "one\n");
}

#[test]
fn nothing_is_said_twice_when_a_sandbox_inside_asks_too() {
    let world = place().file("project/sandbox.toml", "cow = true\n");
    let script = "agent-sandbox sh -c 'echo x > a; cat a'; agent-sandbox --cow true";
    let run = world.run([
        "sh",
        "-c",
        &script.replace("agent-sandbox", "/run/agent-sandbox/agent-sandbox"),
    ]);
    run.code(125)
        .stdout("x\n")
        .stderr_contains("the outermost sandbox decides about copy-on-write")
        .stderr_contains("cannot use copy-on-write inside a sandbox");
    assert!(!world.has("project/a"));
}

#[test]
fn doctor_names_the_engine() {
    let world = place().dir("project/sub");
    world.run(["doctor"]).stdout_contains("uses the engine `overlay`");
    let run = with_mounts(&world, "mount -t tmpfs none sub; $as doctor || true").succeeds();
    run.stdout_contains("cannot mount an overlay over this directory");
}

#[test]
fn the_plan_tells_what_is_kept_apart() {
    let world = place().file("project/a", "");
    world.run(["--cow", "why", "a"]).succeeds().stdout_contains("changes are isolated");
    world.run(["why", "a"]).succeeds().stdout_lacks("isolated");
    let dry = world.run(["--cow", "--dry-run", "true"]).succeeds();
    dry.stdout_contains("changes go into a layer").stdout_contains("--ro-bind");
    world.run(["--cow", "--debug", "true"]).succeeds().stderr_contains("copy-on-write");
    world.run(["--cow", "config", "show"]).succeeds().stdout_contains("cow");
}

#[test]
fn other_changes_on_the_host_are_noted() {
    let world = place().file("project/src/other", "1");
    let mut run = world.spawn(["--cow", "sh", "-c", "echo 1 > a; echo ready; read line"]);
    run.wait_for("ready");
    world.write("project/src/other", "2");
    run.send("go\n");
    let run = run.wait().succeeds();
    run.stderr_contains("src/other changed on the host while the command ran");
}
