//! Chance with a seed that can be told and given again.

/// Chance: xorshift, seeded by `M3_SEED` or the clock.
#[derive(Debug)]
pub struct Dice {
    seed: u64,
    state: u64,
}

impl Default for Dice {
    fn default() -> Self {
        Self::new()
    }
}

impl Dice {
    /// Chance by the environment's seed, or another each time.
    #[must_use]
    pub fn new() -> Self {
        let seed = std::env::var("M3_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| m3ipc_sys::monotonic_ns() >> 8);
        Self::of(seed)
    }

    /// Chance by this seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        // Never zero, where it would stay.
        Self { seed, state: (seed ^ 0x9e37_79b9_7f4a_7c15).max(1) }
    }

    /// What it began with.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % bound.max(1)
    }

    /// An index below `bound`.
    pub fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap_or(0)
    }
}
