//! Many commands, many sessions, and an engine that stops between them.

use std::time::{Duration, Instant};

use testkit::{Daemon, Docker, Signal, World, rounds};

use super::stage::{NAME, Stage};

/// Timeout on a busy machine. Only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(300);

/// One container for all commands. However the daemon ends, each command that succeeded ran exactly
/// once, and each command that could not run reports that.
#[test]
fn every_command_counts_across_restarts_of_the_daemon() {
    let count = rounds(24, 1000);
    let mut daemon = Daemon::new();
    let docker = daemon.docker();
    let image = docker.import_busybox();
    let stage = Stage::on(docker, &image, "");
    stage.bring_up().succeeds();
    let container = stage.inspect("{{.Id}}");
    stage.sh("echo kept > ~/note").succeeds();
    run_all(&stage, 0..count / 3);
    daemon.stop(Signal::TERM);
    without_an_engine(&stage);
    daemon.start();
    wait_until_up(&stage);
    run_all(&stage, count / 3..count * 2 / 3);
    assert_eq!(stage.inspect("{{.Id}}"), container, "it is the same container all the time");
    // A daemon that was killed may end its containers when it returns, and not restart them. `up` does.
    daemon.stop(Signal::KILL);
    without_an_engine(&stage);
    daemon.start();
    stage.bring_up().succeeds();
    run_all(&stage, count * 2 / 3..count);
    let mut lines: Vec<usize> =
        stage.world.read("project/done").lines().map(|line| line.parse().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, (0..count).collect::<Vec<_>>());
    stage.sh("cat ~/note").succeeds().stdout("kept\n");
    stage.bring_up().succeeds().stderr_contains("is already running");
    // Resources that cannot be removed stay recorded, and the next command removes them.
    daemon.stop(Signal::TERM);
    let gone = "cannot connect to the container engine";
    stage.world.run(["down", NAME]).fails().stderr_contains(gone);
    stage.world.run(["rm", NAME]).fails().stderr_contains(gone);
    daemon.start();
    stage.down().succeeds();
    assert_eq!(stage.containers(), [""; 0]);
    stage.bring_up().succeeds();
    stage.sh("cat ~/note").succeeds().stdout("kept\n");
    stage.world.run(["rm", NAME]).succeeds();
}

/// Runs four at a time, each with a line of its own.
fn run_all(stage: &Stage, numbers: std::ops::Range<usize>) {
    let numbers: Vec<usize> = numbers.collect();
    for some in numbers.chunks(4) {
        let start = |number: &usize| {
            let script = format!("echo {number} >> done; echo {number}");
            stage.world.spawn(["exec", "-s", NAME, "sh", "-c", &script])
        };
        let running: Vec<_> = some.iter().map(start).collect();
        for (process, number) in running.into_iter().zip(some) {
            process.wait_up_to(PATIENCE).succeeds().stdout(&format!("{number}\n"));
        }
    }
}

/// Nothing hangs or is forgotten, and every failure is reported.
fn without_an_engine(stage: &Stage) {
    let gone = "cannot connect to the container engine";
    stage.sh("echo lost >> done").code(125).stderr_contains(gone).stderr_contains("hint: ");
    stage.bring_up().code(125).stderr_contains(gone);
    stage.world.run(["logs", NAME]).fails().stderr_contains(gone);
    stage.world.run(["ps"]).succeeds().stdout_contains(NAME);
    assert!(stage.id().is_some());
}

/// The engine restarts containers on its own, some time after its API answers.
fn wait_until_up(stage: &Stage) {
    let end = Instant::now() + PATIENCE;
    while stage.sh("true").status().code() != Some(0) {
        assert!(Instant::now() < end, "{}", stage.sh("true").messages());
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn many_containers_come_up_at_once_serve_and_go() {
    let count = rounds(4, 30);
    let docker = Docker::new();
    let text = format!("image = '{}'\n", docker.busybox());
    let mut world: World = docker.world().clone();
    for number in 0..count {
        world = world.file(format!("p{number}/sandbox.toml"), &text);
        let project = world.path(format!("p{number}"));
        std::os::unix::fs::chown(project, Some(1000), Some(1000)).unwrap();
    }
    let each = |words: &[&str]| {
        let start = |number: usize| {
            let name = format!("s{number}");
            let words: Vec<String> = words.iter().map(|word| word.replace('@', &name)).collect();
            world.clone().cwd(format!("p{number}")).spawn(words)
        };
        let running: Vec<_> = (0..count).map(start).collect();
        let ended = running.into_iter().map(|run| run.wait_up_to(PATIENCE).succeeds().output());
        ended.collect::<Vec<_>>()
    };
    each(&["--trust", "up", "--name", "@"]);
    let script = "echo @ > mine; cat mine; echo @ > /tmp/mine-@; cat /tmp/mine-*; hostname";
    for (number, text) in each(&["exec", "-s", "@", "sh", "-c", script]).iter().enumerate() {
        assert_eq!(*text, format!("s{number}\ns{number}\nsandbox\n"));
    }
    let list = world.run(["ps", "--json"]).succeeds().output();
    assert_eq!(list.matches("\"state\": \"running\"").count(), count, "{list}");
    each(&["down", "@"]);
    each(&["rm", "@"]);
    world.run(["prune", "--yes"]).succeeds().stderr_contains("nothing to remove");
}
