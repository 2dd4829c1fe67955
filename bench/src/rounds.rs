//! Interleaved rounds: all subjects run once in each round, in random order.

use std::time::{Duration, Instant};

use crate::BenchError;
use crate::subject::Subject;

/// Sorted run times of one subject.
#[derive(Debug)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Sorts run times. There must be at least one.
    pub(crate) fn of(mut runs: Vec<Duration>) -> Self {
        runs.sort_unstable();
        Self(runs)
    }

    /// Returns the minimum, the time with the least interference.
    pub(crate) fn min(&self) -> f64 {
        self.0.first().map_or(f64::NAN, |time| milliseconds(*time))
    }

    pub(crate) fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).map_or(f64::NAN, |time| milliseconds(*time))
    }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Fixed seed, so that two runs of a build use the same orders.
pub(crate) const SEED: u64 = 0x5eed_0b01_7ab1_e501;

/// Generator of pseudo-random orders: xorshift64 and Fisher-Yates.
pub(crate) struct Order(u64);

impl Order {
    pub(crate) fn new() -> Self {
        Self(SEED)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap_or(0)
    }

    /// Returns the numbers below `count`, shuffled.
    pub(crate) fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.below(last + 1));
        }
        order
    }
}

/// Runs all subjects once in each round. The first round warms up caches and does not count.
pub(crate) fn run(subjects: &[Subject], rounds: usize) -> Result<Vec<Times>, BenchError> {
    let mut order = Order::new();
    let mut runs = vec![Vec::with_capacity(rounds); subjects.len()];
    for round in 0..=rounds {
        for index in order.shuffled(subjects.len()) {
            let time = time(&subjects[index])?;
            if round > 0 {
                runs[index].push(time);
            }
        }
    }
    Ok(runs.into_iter().map(Times::of).collect())
}

/// Returns the time from start to exit. Preparation is not included.
fn time(subject: &Subject) -> Result<Duration, BenchError> {
    let mut ready = subject.ready()?;
    let before = Instant::now();
    let status = ready.command.status();
    let time = before.elapsed();
    let status = status.map_err(|error| BenchError::Start(subject.name.clone(), error))?;
    if status.success() {
        return Ok(time);
    }
    Err(BenchError::Fails(subject.name.clone(), status.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_a_permutation_and_changes_from_round_to_round() {
        let mut order = Order::new();
        let (first, second) = (order.shuffled(12), order.shuffled(12));
        assert_ne!(first, second);
        for mut shuffled in [first, second] {
            shuffled.sort_unstable();
            assert_eq!(shuffled, (0..12).collect::<Vec<_>>());
        }
    }

    #[test]
    fn times_give_minimum_and_median_of_any_order() {
        let times = Times::of([5, 1, 3].map(Duration::from_millis).to_vec());
        assert!((times.min() - 1.0).abs() < 1e-9, "{times:?}");
        assert!((times.median() - 3.0).abs() < 1e-9, "{times:?}");
    }
}
