//! Sessions of the engine agentfs whose supervisor is killed, or whose mount is used in another namespace.

use std::fs;
use std::path::Path;
use std::time::Duration;

use testkit::{Process, Signal, World, need, until};

/// Returns the mounts below a directory.
fn mounts(below: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("a list of mounts");
    let below = below.display().to_string();
    let at = |line: &str| line.split(' ').nth(4).unwrap_or_default().to_owned();
    table.lines().map(at).filter(|at| at.starts_with(&below)).collect()
}

/// Returns processes of this world's program: their memory map, working directory or arguments name its directory.
fn processes(world: &World) -> Vec<String> {
    let home = world.path("").display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("a list of processes").flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let state = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let names =
            |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(home.trim_end_matches('/'));
        if names(&environment) && !state.contains(") Z ") {
            found.push(format!("{pid} {}", String::from_utf8_lossy(&words).replace('\0', " ")));
        }
    }
    found
}

/// Starts a script in a session of this engine.
fn start(world: &World, session: &str, script: &str) -> Process {
    world.spawn(["--session", session, "--cow=agentfs", "sh", "-c", script])
}

#[test]
fn a_killed_supervisor_leaves_neither_mounts_nor_processes() {
    need("fusermount3");
    let world = World::new().file("project/a", "1\n");
    // The control: during the run both exist.
    let run = start(&world, "s", "echo 2 > b; echo in; sleep 1000");
    run.wait_for("in");
    assert!(!mounts(&world.path("")).is_empty());
    assert!(processes(&world).len() > 1);
    run.signal(Signal::KILL);
    run.wait();
    for moment in 0..12 {
        let run = start(&world, &format!("s{moment}"), "echo 2 > b; sleep 1000");
        std::thread::sleep(Duration::from_millis(moment * 15));
        run.signal(Signal::KILL);
        run.wait();
    }
    world.run(["ps"]).succeeds();
    until("the mounts are gone", || mounts(&world.path("")).is_empty().then_some(()));
    until("the processes are gone", || processes(&world).is_empty().then_some(()));
    world.run(["diff", "-s", "s", "--name-only"]).succeeds().stdout("b\n");
}

#[test]
fn the_next_command_takes_away_what_dead_daemons_left() {
    need("fusermount3");
    let world = World::new().file("project/a", "1\n");
    let run = start(&world, "s", "echo 2 > b; echo in; sleep 1000");
    run.wait_for("in");
    // All are killed at once, as by the OOM killer, so none can clean up after another.
    let all = processes(&world);
    let pids: Vec<&str> = all.iter().filter_map(|line| line.split(' ').next()).collect();
    let stop = ["kill", "-STOP"];
    world.host(stop.iter().chain(&pids)).status();
    let kill = ["kill", "-KILL"];
    world.host(kill.iter().chain(&pids)).status();
    run.wait();
    until("the processes are gone", || processes(&world).is_empty().then_some(()));
    world.run(["ps"]).succeeds().stdout_contains("killed");
    assert_eq!(mounts(&world.path("")), Vec::<String>::new());
    world.run(["diff", "-s", "s", "--name-only"]).succeeds().stdout("b\n");
}

/// Returns a command in a mount namespace that contains one mount of the host and none of other tests.
pub(crate) fn elsewhere(mount: &str) -> Vec<String> {
    let bwrap = need("bwrap").display().to_string();
    let words = format!(
        "{bwrap} --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib"
    );
    let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    for rest in [
        &["--symlink", "usr/lib64", "/lib64", "--bind", mount, "/mnt"][..],
        &["sh", "-c", "echo held; exec sleep 1000"],
    ] {
        words.extend(rest.iter().map(|word| (*word).to_owned()));
    }
    words
}

#[test]
fn the_end_of_a_session_does_not_wait_for_another_mount_namespace() {
    need("fusermount3");
    let world = World::new().file("project/a", "1\n");
    let mut run = world.spawn([
        "--session",
        "s",
        "--cow=agentfs",
        "sh",
        "-c",
        "echo 2 > b; echo in; read line",
    ]);
    run.wait_for("in");
    let at = mounts(&world.path("")).pop().expect("a mount");
    let other = world.start(elsewhere(&at));
    other.wait_for("held");
    run.send("go\n");
    let ended = run.wait().succeeds();
    ended
        .stderr_contains("(`sleep`) still had the session's files open in another mount namespace");
    world.run(["apply", "-s", "s"]).succeeds().stdout("A b\n");
    other.signal(Signal::KILL);
    other.wait();
}
