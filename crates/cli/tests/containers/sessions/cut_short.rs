//! `up` killed at every step: the next command goes on, or takes everything back.

use testkit::need;

use super::stage::{NAME, Stage};

/// The calls by which something is made: directories, files, the engine, the record.
const STEPS: &str = "mkdir,mkdirat,symlink,symlinkat,connect,fsync,fdatasync,rename,renameat2";

#[test]
fn up_that_is_killed_at_any_step_leaves_nothing_that_down_does_not_take_away() {
    let strace = need("strace").display().to_string();
    let every = testkit::rounds(4, 1);
    let stage = Stage::new("");
    let mut step = 1;
    loop {
        let trace = format!("trace={STEPS}");
        let kill = format!("inject={STEPS}:signal=KILL:when={step}");
        let binary = stage.world.binary().display().to_string();
        let quiet = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &kill];
        let line = [strace.as_str()].into_iter().chain(quiet);
        let run = stage.world.host(line.chain([binary.as_str(), "--trust", "up", "--name", NAME]));
        if run.status().success() {
            break;
        }
        if step % 2 == 0 {
            stage.bring_up().succeeds();
            stage.sh("id -u").succeeds().stdout("1000\n");
        }
        stage.world.run(["down", NAME]);
        assert_eq!(stage.containers(), [""; 0], "after step {step}");
        step += every;
    }
    assert!(step > 10, "{step} steps are too few to be all");
    stage.down().succeeds();
}

/// Without the record, what carries our mark is found by its label.
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
