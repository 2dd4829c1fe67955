//! `bench cow`: what a copy-on-write tree costs, as ratios to a plain directory.

mod inside;
mod ground;
mod place;
mod task;
mod stored;
mod table;

pub(crate) use inside::{INSIDE, inside};

use crate::BenchError;
use crate::rounds::{Order, SEED};
use ground::{Ground, Size};
use place::Place;
use table::Results;
use task::TASKS;

/// Measures everything and prints it.
pub(crate) fn run(rounds: usize, quick: bool) -> Result<(), BenchError> {
    let ground = Ground::new(if quick { Size::QUICK } else { Size::FULL })?;
    let places = place::available(&ground);
    let mut results = Results::new(&places);
    let mut order = Order::new();
    println!(
        "{} files, {} MiB; {rounds} rounds in random order, seed {SEED:#x}\n",
        ground.size.files, ground.size.large
    );
    for round in 0..rounds {
        for index in order.shuffled(places.len()) {
            one(&ground, &places[index], round, &mut results, index)?;
        }
    }
    for (index, place) in places.iter().enumerate() {
        stored::measure(&ground, place, &mut results, index)?;
    }
    results.print();
    Ok(())
}

/// Every task in a fresh tree of one place.
fn one(
    ground: &Ground,
    place: &Place,
    round: usize,
    results: &mut Results,
    index: usize,
) -> Result<(), BenchError> {
    let mut tree = place.tree(ground, &format!("{}-{round}", place.short));
    for (number, task) in TASKS.iter().enumerate() {
        if task.forgotten {
            place::drop_caches();
        }
        if task.cold {
            tree.remount();
        }
        if task.compiles && place.user.is_some() {
            continue;
        }
        let time = place.time(&tree, &(task.words)(ground))?;
        results.time(index, number, time);
    }
    results.memory(index, place::peak(&tree));
    let before = std::time::Instant::now();
    tree.unmount();
    results.unmount(index, before.elapsed());
    Ground::sweep(tree)
}
