//! `bench cow`: speed of copy-on-write trees, as ratios to a plain directory.

mod inside;
mod fixture;
mod candidate;
mod task;
mod stored;
mod table;

pub(crate) use inside::{INSIDE, inside};

use crate::BenchError;
use crate::rounds::{Order, SEED};
use candidate::Candidate;
use fixture::{Fixture, Size};
use table::Results;
use task::TASKS;

/// Runs the benchmark and prints the results.
pub(crate) fn run(rounds: usize, quick: bool) -> Result<(), BenchError> {
    let fixture = Fixture::new(if quick { Size::QUICK } else { Size::FULL })?;
    let candidates = candidate::available(&fixture);
    let mut results = Results::new(&candidates);
    let mut order = Order::new();
    println!(
        "{} files, {} MiB; {rounds} rounds in random order, seed {SEED:#x}\n",
        fixture.size.files, fixture.size.large
    );
    for round in 0..rounds {
        for index in order.shuffled(candidates.len()) {
            run_tasks(&fixture, &candidates[index], round, &mut results, index)?;
        }
    }
    for (index, candidate) in candidates.iter().enumerate() {
        stored::measure(&fixture, candidate, &mut results, index)?;
    }
    results.print();
    Ok(())
}

/// Runs all tasks in a fresh tree of one candidate.
fn run_tasks(
    fixture: &Fixture,
    candidate: &Candidate,
    round: usize,
    results: &mut Results,
    index: usize,
) -> Result<(), BenchError> {
    let mut tree = candidate.tree(fixture, &format!("{}-{round}", candidate.short));
    for (number, task) in TASKS.iter().enumerate() {
        if task.drop_caches {
            candidate::drop_caches();
        }
        if task.cold {
            tree.remount();
        }
        if task.compiles && candidate.user.is_some() {
            continue;
        }
        let time = candidate.time(&tree, &(task.words)(fixture))?;
        results.time(index, number, time);
    }
    results.memory(index, candidate::peak(&tree));
    let before = std::time::Instant::now();
    tree.unmount();
    results.unmount(index, before.elapsed());
    Fixture::remove(tree)
}
