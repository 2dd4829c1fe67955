//! A full disk below the directory of the sessions.

use std::path::PathBuf;
use std::process::Command;

use testkit::rounds;

use super::stage::{NAME, Stage};

/// Small file system that the engine sees, too.
struct Small(PathBuf);

impl Small {
    fn at(path: PathBuf) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        let small = Self(path);
        small.call("mount", &["-t", "tmpfs", "-o", "size=768k,mode=700", "tmpfs"]);
        small
    }

    fn call(&self, program: &str, words: &[&str]) {
        let status = Command::new(program).args(words).arg(&self.0).status().unwrap();
        assert!(status.success(), "{program}: {status}");
    }

    /// Fills the disk except for this number of bytes.
    fn leave(&self, room: usize) {
        let fill = self.0.join("fill");
        std::fs::write(&fill, vec![0; 1 << 20]).unwrap_err();
        let length = std::fs::metadata(&fill).unwrap().len();
        let opened = std::fs::File::options().write(true).open(&fill).unwrap();
        opened.set_len(length.saturating_sub(room as u64)).unwrap();
    }

    fn clear(&self) {
        std::fs::remove_file(self.0.join("fill")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_at_whatever_step_and_leaves_nothing() {
    let stage = Stage::new("");
    let small = Small::at(stage.world.path("home/.local/share/agent-sandbox"));
    let mut failed = 0;
    for room in (0..40).step_by(rounds(8, 1)) {
        small.leave(room * 4096);
        let run = stage.bring_up();
        small.clear();
        if run.status().success() {
            stage.down().succeeds();
            break;
        }
        failed += 1;
        let said = run.code(125).messages();
        assert!(said.contains("is full: free some space"), "with {room} pages: {said}");
        assert_eq!(stage.containers(), [""; 0], "with {room} pages");
    }
    assert!(failed >= 2, "only {failed} failed");
    stage.bring_up().succeeds();
    // Full while it runs: commands work, and it can be stopped.
    small.leave(0);
    stage.sh("echo served").succeeds().stdout("served\n");
    small.clear();
    stage.down().succeeds();
    stage.world.run(["rm", NAME]).succeeds();
    assert_eq!(stage.containers(), [""; 0]);
}

/// A log for which there is no space is lost, and everything else is done.
#[test]
fn a_container_goes_also_when_its_log_finds_no_room() {
    const ROOM: usize = 200 << 10;
    let agent = "agent = { command = 'sh', args = ['-c', 'seq 1 80000; echo said; sleep 1000'] }";
    let stage = Stage::new(agent);
    let small = Small::at(stage.world.path("home/.local/share/agent-sandbox"));
    let up = || {
        stage.bring_up().succeeds();
        while !stage.world.run(["logs", "--tail", "1", NAME]).output().contains("said") {}
    };
    let unfinished = || {
        let logs = std::fs::read_dir(stage.world.path("home/.local/share/agent-sandbox/logs"));
        logs.into_iter()
            .flatten()
            .flatten()
            .any(|log| log.path().extension().is_some_and(|end| end == "new"))
    };
    up();
    small.leave(ROOM);
    stage.down().succeeds().stderr_contains("warning: cannot save the container's log");
    assert!(stage.containers().is_empty() && !unfinished());
    up();
    stage.configure(&format!("{agent}\nenv.A = 'b'"));
    let again = stage.bring_up().succeeds();
    again.stderr_contains("cannot save the container's log").stderr_contains("settings changed");
    assert!(!unfinished());
    // The log is removed with the session, so nothing is written.
    while !stage.world.run(["logs", "--tail", "1", NAME]).output().contains("said") {}
    small.clear();
    small.leave(40 << 10);
    stage.world.run(["rm", "--yes", NAME]).succeeds().stderr_lacks("cannot save");
    assert!(stage.containers().is_empty());
    // The control: with space, it is saved.
    small.clear();
    stage.configure("agent = { command = 'sh', args = ['-c', 'seq 1 80; echo said; sleep 1000'] }");
    up();
    stage.down().succeeds().stderr_lacks("warning");
    stage.world.run(["logs", "--tail", "1", NAME]).succeeds().stdout("said\n");
}
