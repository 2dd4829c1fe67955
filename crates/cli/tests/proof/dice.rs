//! Numbers that look random and come back with their seed.

/// A generator (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5eed)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.number() >> 1).unwrap_or(0) % limit
    }

    /// True once in so many times.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            (0..length.div_ceil(8)).flat_map(|_| self.number().to_le_bytes()).collect();
        bytes.truncate(length);
        bytes
    }
}

/// The seeds of a suite: `AGENT_SANDBOX_SEED` alone if it is set, to run a failure again.
pub(crate) fn seeds(short: usize, long: usize) -> Vec<u64> {
    #[allow(clippy::disallowed_methods, reason = "a test has no `Host`")]
    let one = std::env::var("AGENT_SANDBOX_SEED").ok().and_then(|seed| seed.parse().ok());
    one.map_or_else(|| (1..=testkit::rounds(short, long) as u64).collect(), |seed| vec![seed])
}
