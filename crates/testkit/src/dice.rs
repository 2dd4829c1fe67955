//! Numbers that look random and come back with their seed.

use crate::caller::{rounds, setting};

/// A generator (splitmix64).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5eed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.number() >> 1).unwrap_or(0) % limit
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// So many bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            (0..length.div_ceil(8)).flat_map(|_| self.number().to_le_bytes()).collect();
        bytes.truncate(length);
        bytes
    }
}

/// The seeds of a suite: `AGENT_SANDBOX_SEED` alone if it is set, to run a failure again.
pub fn seeds(short: usize, long: usize) -> Vec<u64> {
    let one = setting("AGENT_SANDBOX_SEED").and_then(|seed| seed.to_str()?.parse().ok());
    one.map_or_else(|| (1..=rounds(short, long) as u64).collect(), |seed| vec![seed])
}
