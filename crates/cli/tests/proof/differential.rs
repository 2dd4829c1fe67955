//! Random operations on an engine and on a plain directory: all results and both trees must be equal.

mod op;
mod world;

use rustix::io::Errno;
use testkit::{Engine, Layered, User, World, user};

use crate::dice::{Dice, seeds};
use crate::tree::{self, Tree};
use op::{Answer, Op, Side};
pub(crate) use world::Generator;

/// Operations between two comparisons of the trees, and such batches for each seed.
const BATCH: usize = 60;
const BATCHES: usize = 5;

#[test]
fn overlay_answers_like_a_plain_directory() {
    compare(Engine::Overlay);
}

#[test]
fn agentfs_answers_like_a_plain_directory() {
    compare(Engine::AgentFs);
}

fn compare(engine: Engine) {
    for seed in seeds(12, 2000) {
        let run = std::panic::catch_unwind(|| one(engine, seed));
        assert!(run.is_ok(), "{engine:?} differs; again with: AGENT_SANDBOX_SEED={seed}");
    }
}

fn one(engine: Engine, seed: u64) {
    let world = World::new();
    let mut generator = Generator { dice: Dice::new(seed), engine, root: user() == User::Root };
    generator.base(&world.path("engine/base"));
    world.clone().cwd("").host(["cp", "-a", "engine", "plain"]).succeeds();
    let plain = Layered::new(&world, "plain", Engine::Native);
    let mut tested = Layered::new(&world, "engine", engine);
    for batch in 0..BATCHES {
        let mut log = Log::default();
        play(&mut generator, &mut Side::new(tested.path()), &mut Side::new(plain.path()), &mut log);
        let expected = tree::read(&plain.path());
        let found = tree::read(&tested.path());
        // overlayfs shows two inode numbers for the names of a base file that got a second name, until it is mounted
        // again.
        let forget = |tree: &Tree| {
            if engine == Engine::Overlay { tree::without_twins(tree) } else { tree.clone() }
        };
        same(&forget(&expected), &forget(&found), &log, &format!("after batch {batch}"));
        let before = tree::inodes(&tested.path(), &found);
        tested.remount();
        same(
            &expected,
            &tree::read(&tested.path()),
            &log,
            &format!("remounted after batch {batch}"),
        );
        if engine == Engine::AgentFs {
            let after = tree::inodes(&tested.path(), &tree::read(&tested.path()));
            assert_eq!(before, after, "inode numbers, remounted after batch {batch}");
        }
    }
    untouched(&tested, &world);
}

/// Returns the last operations, for the report of a failure.
#[derive(Default)]
struct Log(Vec<String>);

impl Log {
    fn text(&self) -> String {
        self.0.join("\n")
    }
}

fn play(generator: &mut Generator, engine: &mut Side, plain: &mut Side, log: &mut Log) {
    for _ in 0..BATCH {
        let op = generator.op();
        let answer = engine.apply(&op);
        log.0.push(format!("{op:?} -> {}", short(&answer)));
        if generator.is_limit(&op, &answer) {
            continue;
        }
        let expected = plain.apply(&op);
        assert!(
            answer == expected,
            "plain says {}, engine differs:\n{}",
            short(&expected),
            log.text()
        );
    }
}

fn short(answer: &Answer) -> String {
    match answer {
        Ok(bytes) if bytes.len() > 60 => {
            format!("{} bytes, {}…", bytes.len(), bytes[..40].escape_ascii())
        }
        Ok(bytes) => format!("ok {}", bytes.escape_ascii()),
        Err(errno) => format!("{errno}"),
    }
}

fn same(plain: &Tree, engine: &Tree, log: &Log, when: &str) {
    if let Some(text) = tree::difference(plain, engine) {
        panic!("{when}:\n{}\n{text}", log.text());
    }
}

/// No engine writes to its base, which must equal the base of the plain tree.
fn untouched(tested: &Layered, world: &World) {
    let (kept, now) = (tree::read(&world.path("plain/base")), tree::read(&tested.base()));
    assert_eq!(tree::difference(&kept, &now), None, "the base has changed");
}

impl Generator {
    /// Operations that overlayfs refuses, each named in the documentation: it does not rename a directory of the
    /// base, and sometimes does not exchange two names of one file of the base.
    fn is_limit(&self, op: &Op, answer: &Answer) -> bool {
        self.engine == Engine::Overlay
            && matches!(op, Op::Rename { .. })
            && matches!(answer, Err(Errno::XDEV | Errno::STALE))
    }
}
