//! The daemon is killed repeatedly at random moments. Every acknowledged write is there, writes in progress are there
//! completely, partly or not at all, and no other data is there.

mod files;
mod load;

use std::time::Duration;

use testkit::{Engine, Layered, Process, World, need};

use crate::dice::{Dice, seeds};
use files::Files;
use load::{Load, Loaded};

/// Kills for each seed.
const KILLS: usize = 20;

#[test]
fn agentfs_loses_nothing_that_was_answered_when_its_daemon_is_killed() {
    need("sqlite3");
    for seed in seeds(1, 50) {
        let run = std::panic::catch_unwind(|| kill_often(seed));
        assert!(run.is_ok(), "something was lost; again with: AGENT_SANDBOX_SEED={seed}");
    }
}

fn kill_often(seed: u64) {
    let world = World::new().file("crash/base/left/old", "from the base").dir("crash/base/right");
    let mut tree = Layered::new(&world, "crash", Engine::AgentFs);
    let mut dice = Dice::new(seed);
    let mut loads = ["left", "right"].map(|name| Load::new(&tree.path(), name, dice.number()));
    let mut rows = 0;
    for round in 0..KILLS {
        let database = Database::start(&tree, rows);
        let wait = Duration::from_millis(20 + dice.below(250) as u64);
        let done = loads.each_mut().map(|load| (load.name(), load.take()));
        let ended = std::thread::scope(|scope| {
            let root = tree.path();
            let threads = done.map(|(name, load)| {
                let root = root.join(name);
                scope.spawn(move || load.run(&root))
            });
            std::thread::sleep(wait);
            tree.kill();
            threads.map(|thread| thread.join().unwrap())
        });
        let acknowledged = database.acknowledged();
        // Files beside the database are not damage, and the output says so.
        let said = tree.fs(["fsck", "tree"]).succeeds().stderr_contains("no damage found");
        if ended.iter().any(|load| load.done > 0) {
            said.stderr_contains("was killed");
        }
        tree.mount();
        for (load, ended) in loads.iter_mut().zip(ended) {
            load.check(&tree.path(), ended, round);
        }
        // A mount has merged what the last one left, so nothing is damaged.
        tree.unmount();
        tree.fs(["fsck", "tree"]).succeeds().stderr_contains("no damage found");
        tree.mount();
        rows = check_database(&tree, rows.max(acknowledged), round);
    }
    let total: usize = loads.iter().map(Load::total).sum();
    assert!(total > 25 * KILLS && rows > KILLS, "too few to mean anything");
}

/// Program that writes to a database in the tree, and prints a line after each committed row.
struct Database(Process);

impl Database {
    fn start(tree: &Layered, from: usize) -> Self {
        let script = format!(
            "(echo 'pragma journal_mode=wal; pragma synchronous=full; create table if not exists t(a integer primary key, b);'
              n={from}; while :; do n=$((n+1)); echo \"insert into t values($n, hex(randomblob(300))); select 'row', $n;\" || exit; done) |
             sqlite3 -bail rows.db 2>/dev/null"
        );
        Self(tree.start(["sh", "-c", &script]))
    }

    /// Returns the last row that was reported. The program ends when its file system is gone.
    fn acknowledged(self) -> usize {
        let said = self.0.wait().output();
        let rows = said.lines().filter_map(|line| line.strip_prefix("row|")?.parse().ok());
        rows.max().unwrap_or(0)
    }
}

/// Returns the number of rows: all that were reported, without gaps.
fn check_database(tree: &Layered, reported: usize, round: usize) -> usize {
    let asked = "pragma integrity_check; select count(*), coalesce(max(a), 0) from t";
    let said = tree.run(["sqlite3", "rows.db", asked]);
    if reported == 0 && said.messages().contains("no such table") {
        return 0;
    }
    let said = said.succeeds().output();
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("ok"), "round {round}: {said}");
    let (count, last) = lines.next().and_then(|line| line.split_once('|')).unwrap();
    let (count, last): (usize, usize) = (count.parse().unwrap(), last.parse().unwrap());
    assert_eq!(count, last, "round {round}: rows are missing");
    assert!(count >= reported, "round {round}: {count} rows, {reported} were reported");
    count
}

impl Load {
    fn check(&mut self, tree: &std::path::Path, ended: Loaded, round: usize) {
        let found = Files::read(&tree.join(self.name()));
        if let Err(text) = ended.explains(&found) {
            panic!("round {round}, {}: {text}", self.name());
        }
        self.give_back(ended, found);
    }
}
