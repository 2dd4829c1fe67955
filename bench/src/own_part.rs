//! Planning time: from a request to a plan, in this process, without a sandbox.

use std::hint::black_box;
use std::time::Instant;

use crate::BenchError;
use crate::fixture::Fixture;
use crate::rounds::{Order, Times};

/// Numbers of rules.
pub(crate) const SIZES: [usize; 4] = [0, 10, 100, 500];

/// Measures the planning time for each of [`SIZES`].
pub(crate) fn measure(fixture: &Fixture, rounds: usize) -> Result<Vec<(usize, Times)>, BenchError> {
    let mut order = Order::new();
    let mut runs = [const { Vec::new() }; SIZES.len()];
    for _ in 0..rounds {
        for index in order.shuffled(SIZES.len()) {
            let before = Instant::now();
            black_box(fixture.plan(SIZES[index])?);
            runs[index].push(before.elapsed());
        }
    }
    Ok(SIZES.into_iter().zip(runs.map(Times::of)).collect())
}
