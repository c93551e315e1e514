//! Randomness from one seed. ChaCha8 is portable: a seed gives the same run on every machine and version.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

/// The world's only source of randomness.
#[derive(Debug)]
pub struct SimulatedRandom {
    generator: ChaCha8Rng,
}

impl SimulatedRandom {
    /// A source from a seed.
    #[must_use]
    pub fn new(seed: u64) -> SimulatedRandom {
        SimulatedRandom { generator: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// A source of its own for one part of the world, so that what one part draws does not move the others.
    pub fn fork(&mut self) -> SimulatedRandom {
        SimulatedRandom::new(self.draw())
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// A number below `limit`; zero if `limit` is.
    pub fn below(&mut self, limit: u64) -> u64 {
        // The bias of the remainder is of no importance here.
        self.draw() % limit.max(1)
    }

    /// A number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// A time from `least` to `most`.
    pub fn duration_between(&mut self, least: Duration, most: Duration) -> Duration {
        Duration::from_nanos(self.between(least.as_nanos() as u64, most.as_nanos() as u64))
    }

    /// True `parts_per_thousand` times in a thousand.
    pub fn chance(&mut self, parts_per_thousand: u64) -> bool {
        self.below(1_000) < parts_per_thousand
    }

    /// One of `choices`; none if there are none.
    pub fn choose<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        choices.get(self.below(choices.len() as u64) as usize).copied()
    }
}
