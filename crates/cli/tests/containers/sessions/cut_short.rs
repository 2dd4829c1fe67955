//! `up`, `down` and `rm`, killed at every step: the next command completes or reverts them.

use testkit::rounds;

use super::stage::{NAME, Stage};

/// System calls that create or remove something: directories, files, requests to the engine, the record.
const STEPS: &str = "?mkdir,mkdirat,?symlink,symlinkat,connect,fsync,fdatasync,?rename,renameat,renameat2,?unlink,\
    unlinkat,?rmdir,sendto,writev,ftruncate,pwrite64,flock";

/// Runs a command and kills it at its `nth` such call. Returns true if it was killed.
fn killed(stage: &Stage, words: &[&str], nth: usize) -> bool {
    !stage.world.killed_at(STEPS, nth, words).status().success()
}

/// Every few steps, or in a soak run every one.
fn at_every_step(stage: &Stage, words: &[&str], ready: impl Fn(), then: impl Fn(usize)) {
    let every = rounds(23, 1);
    let mut kills = 0;
    for nth in (1..).step_by(every) {
        ready();
        if !killed(stage, words, nth) {
            break;
        }
        kills += 1;
        then(nth);
    }
    assert!(kills > 20 / every, "{words:?}: {kills} steps are too few to be all");
}

/// Asserts that nothing is left of the session, in the engine or on disk, except what outlives `down`.
fn nothing_runs(stage: &Stage, when: &str) {
    assert_eq!(stage.containers(), [""; 0], "{when}");
    let prune = stage.world.run(["prune", "--dry-run"]).succeeds().messages();
    assert!(prune.contains("nothing to remove"), "{when}: {prune}");
}

#[test]
fn up_that_is_killed_at_any_step_is_completed_or_taken_back() {
    let stage = Stage::new("");
    at_every_step(
        &stage,
        &["--trust", "up", "--name", NAME],
        || {},
        |nth| {
            if nth % 2 == 0 {
                stage.bring_up().succeeds();
                stage.sh("id -u").succeeds().stdout("1000\n");
            }
            // Before anything is recorded, there is nothing to stop.
            let code = stage.down().status().code();
            assert!(code == Some(0) || code == Some(2), "after step {nth}: {code:?}");
            nothing_runs(&stage, &format!("up, killed at step {nth}"));
        },
    );
    stage.down().succeeds();
}

#[test]
fn down_and_rm_that_are_killed_at_any_step_are_completed_and_lose_nothing() {
    let stage = Stage::new("");
    let ready = || {
        stage.bring_up().succeeds();
        stage.sh("echo kept > ~/note").succeeds();
    };
    at_every_step(&stage, &["down", NAME], ready, |nth| {
        stage.down().succeeds();
        nothing_runs(&stage, &format!("down, killed at step {nth}"));
        stage.bring_up().succeeds();
        stage.sh("cat ~/note").succeeds().stdout("kept\n");
    });
    let boxes = "home/.local/share/agent-sandbox/boxes";
    at_every_step(&stage, &["rm", NAME], ready, |nth| {
        stage.world.run(["rm", NAME]);
        stage.world.run(["prune", "--yes"]).succeeds();
        assert!(stage.id().is_none(), "rm, killed at step {nth}");
        let left = std::fs::read_dir(stage.world.path(boxes)).into_iter().flatten().count();
        assert_eq!(left, 0, "rm, killed at step {nth}");
    });
}

/// Without the record, resources with our mark are found by their label.
#[test]
fn prune_finds_containers_that_no_record_names() {
    let stage = Stage::up("");
    let (container, id) = (stage.container(), stage.id().unwrap());
    let record = stage.world.path("home/.local/share/agent-sandbox/sessions.db");
    let forget = "DELETE FROM thing; DELETE FROM session;";
    stage.world.host(["sqlite3", &record.display().to_string(), forget]).succeeds();
    stage.world.run(["prune", "--yes"]).succeeds();
    stage.docker.run(["inspect", &container]).fails();
    assert!(!stage.world.has(format!("home/.local/share/agent-sandbox/boxes/{id}")));
}

/// Also if the whole record is lost.
#[test]
fn prune_finds_containers_without_a_record() {
    let stage = Stage::up("");
    let container = stage.container();
    std::fs::remove_file(stage.world.path("home/.local/share/agent-sandbox/sessions.db")).unwrap();
    stage.world.run(["prune", "--dry-run"]).succeeds().stderr_contains(&container);
    stage.docker.run(["inspect", &container]).succeeds();
    stage.world.run(["prune", "--yes"]).succeeds();
    stage.docker.run(["inspect", &container]).fails();
}
