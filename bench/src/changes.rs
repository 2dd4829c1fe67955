//! `bench changes`: time of `diff` and `snapshot` in a session with a small and with a large base. It should depend on
//! the number of changes only, so both should take equally long.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sandbox_policy::Host;
use testkit::World;

use crate::BenchError;
use crate::rounds::{Order, SEED, Times};

/// Number of files in the two bases.
const BASES: [usize; 2] = [1_000, 50_000];
/// Script that makes 100 changes, spread over the directories.
const SCRIPT: &str = "for i in $(seq 0 59); do echo more >> d$i/f0; done
    for i in $(seq 60 69); do rm d$i/f0; done
    for i in $(seq 0 29); do echo new > d$i/new; done";
const ENGINES: [&str; 2] = ["overlay", "agentfs"];
const COMMANDS: [&[&str]; 3] = [
    &["diff", "-s", "s", "--name-only"],
    &["diff", "-s", "s", "--patch"],
    &["snapshot", "-s", "s"],
];

/// Session with one base.
struct Subject {
    engine: &'static str,
    world: World,
    /// Times by command.
    times: [Vec<std::time::Duration>; COMMANDS.len()],
}

/// Runs the benchmark and prints the results.
pub(crate) fn run(rounds: usize) -> Result<(), BenchError> {
    let mut subjects = Vec::new();
    for engine in ENGINES {
        for files in BASES {
            subjects.push(subject(engine, files)?);
        }
    }
    println!("100 changes; {rounds} rounds in random order, seed {SEED:#x}; minima in ms\n");
    let mut order = Order::new();
    for _ in 0..rounds {
        for index in order.shuffled(subjects.len()) {
            subjects[index].time();
        }
    }
    print(subjects);
    Ok(())
}

fn subject(engine: &'static str, files: usize) -> Result<Subject, BenchError> {
    let host = Host::read();
    let binary = host.var("AGENT_SANDBOX_BIN").map(PathBuf::from);
    let binary = binary.filter(|path| path.is_file()).ok_or(BenchError::NoBinary)?;
    let dir = host.var("BENCH_DIR").map_or("/var/tmp".into(), PathBuf::from);
    let world = World::below(&dir, binary.canonicalize()?);
    fill(&world.path("project"), files)?;
    let cow = format!("--cow={engine}");
    world.run([cow.as_str(), "--session", "s", "sh", "-ec", SCRIPT]).succeeds();
    Ok(Subject { engine, world, times: Default::default() })
}

/// Creates 100 directories with equally many files.
fn fill(dir: &Path, files: usize) -> Result<(), BenchError> {
    for number in 0..files {
        let below = dir.join(format!("d{}", number % 100));
        if number < 100 {
            fs::create_dir_all(&below)?;
        }
        fs::write(below.join(format!("f{}", number / 100)), format!("file {number}\n"))?;
    }
    Ok(())
}

impl Subject {
    fn time(&mut self) {
        for (words, times) in COMMANDS.iter().zip(&mut self.times) {
            let before = Instant::now();
            let run = self.world.run(words.iter().copied());
            times.push(before.elapsed());
            drop(run.succeeds());
        }
    }
}

fn print(subjects: Vec<Subject>) {
    println!("{:<28}{:>12}{:>12}{:>8}", "", BASES[0], BASES[1], "ratio");
    let mut subjects = subjects.into_iter();
    while let (Some(small), Some(large)) = (subjects.next(), subjects.next()) {
        let engine = small.engine;
        for ((words, small), large) in COMMANDS.iter().zip(small.times).zip(large.times) {
            let (small, large) = (Times::of(small).min(), Times::of(large).min());
            let name = format!("{engine} {} {}", words[0], words.get(3).unwrap_or(&""));
            println!("{name:<28}{small:>12.1}{large:>12.1}{:>8.2}", large / small);
        }
    }
}
