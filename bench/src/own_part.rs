//! Our own part: from a request to a plan, in this process, without a sandbox.

use std::hint::black_box;
use std::time::Instant;

use crate::BenchError;
use crate::rounds::{Order, Times};
use crate::stage::Stage;

/// How many rules are planned.
pub(crate) const SIZES: [usize; 4] = [0, 10, 100, 500];

/// Planning time for each of [`SIZES`].
pub(crate) fn measure(stage: &Stage, rounds: usize) -> Result<Vec<(usize, Times)>, BenchError> {
    let mut order = Order::new();
    let mut runs = [const { Vec::new() }; SIZES.len()];
    for _ in 0..rounds {
        for index in order.shuffled(SIZES.len()) {
            let before = Instant::now();
            black_box(stage.plan(SIZES[index])?);
            runs[index].push(before.elapsed());
        }
    }
    Ok(SIZES.into_iter().zip(runs.map(Times::of)).collect())
}
