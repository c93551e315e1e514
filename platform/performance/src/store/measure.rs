//! One run over one store.

use super::{KEY_BYTES, StorePlan, StoreRunError};
use quorate_executor::{OrderedStore, StoreError};
use quorate_framework::Position;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::time::{Duration, Instant};

/// A batch that takes longer than this was held up by the store, not by its own size.
const STALL: Duration = Duration::from_millis(10);
/// Reads between two looks at the clock.
const READS: u64 = 256;

/// The figures of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measured {
    pub(super) puts_per_s: f64,
    pub(super) batch_p50_us: f64,
    pub(super) batch_p99_us: f64,
    pub(super) batch_max_us: f64,
    pub(super) hits_per_s: f64,
    pub(super) misses_per_s: f64,
    pub(super) stalls: u64,
    pub(super) stalled: Duration,
    pub(super) fill: Duration,
    pub(super) memory_bytes: u64,
    pub(super) disk_bytes: u64,
}

/// The key of a number; those of odd numbers lie between those of even ones, which alone are put.
fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"key-00000000000000000000";
    let mut rest = number;
    let mut place = KEY_BYTES;
    while rest > 0 {
        place -= 1;
        key[place] += (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// A store under measurement.
struct Run<'a, S> {
    plan: &'a StorePlan,
    name: &'static str,
    store: &'a mut S,
    value: Vec<u8>,
    random: SmallRng,
    measured: Measured,
}

/// Fills the store and measures.
pub(super) fn measure<S: OrderedStore>(
    plan: &StorePlan,
    name: &'static str,
    store: &mut S,
) -> Result<Measured, StoreRunError> {
    let value = vec![b'v'; plan.value_size_bytes];
    let random = SmallRng::seed_from_u64(1);
    let mut run = Run { plan, name, store, value, random, measured: Measured::default() };
    run.fill()?;
    run.puts()?;
    run.measured.hits_per_s = run.reads(0)?;
    run.measured.misses_per_s = run.reads(1)?;
    run.measured.memory_bytes = run.store.memory_bytes();
    Ok(run.measured)
}

impl<S: OrderedStore> Run<'_, S> {
    fn failed(&self) -> impl Fn(StoreError) -> StoreRunError + use<S> {
        let store = self.name;
        move |error| StoreRunError::Store { store, error }
    }

    /// Puts keys and commits them; counts a stall.
    fn batch(&mut self, numbers: impl Iterator<Item = u64>) -> Result<Duration, StoreRunError> {
        let failed = self.failed();
        let began = Instant::now();
        for number in numbers {
            self.store.put(&key(number), &self.value).map_err(&failed)?;
        }
        let next = self.store.applied().next();
        self.store.commit(Position(next.0)).map_err(&failed)?;
        let took = began.elapsed();
        if took > STALL {
            self.measured.stalls += 1;
            self.measured.stalled += took;
        }
        Ok(took)
    }

    /// Puts every even key once.
    fn fill(&mut self) -> Result<(), StoreRunError> {
        let began = Instant::now();
        let mut first = 0;
        while first < self.plan.keys {
            let end = self.plan.keys.min(first + self.plan.batch as u64);
            self.batch((first..end).map(|number| number * 2))?;
            first = end;
        }
        self.measured.fill = began.elapsed();
        Ok(())
    }

    /// Batches of keys that are there.
    fn puts(&mut self) -> Result<(), StoreRunError> {
        let mut times = Vec::new();
        let began = Instant::now();
        while times.is_empty() || began.elapsed() < self.plan.duration {
            let keys = self.plan.keys;
            let numbers: Vec<u64> = (0..self.plan.batch).map(|_| self.random.random_range(0..keys) * 2).collect();
            times.push(self.batch(numbers.into_iter())?);
        }
        let seconds = times.iter().sum::<Duration>().as_secs_f64();
        self.measured.puts_per_s = (times.len() * self.plan.batch) as f64 / seconds;
        times.sort_unstable();
        let at = |per_cent: usize| times[(times.len() * per_cent).div_ceil(100).max(1) - 1].as_secs_f64() * 1e6;
        (self.measured.batch_p50_us, self.measured.batch_p99_us, self.measured.batch_max_us) =
            (at(50), at(99), at(100));
        Ok(())
    }

    /// Reads of keys that are there (0) or between them (1); gives how many a second. Each answer is checked.
    fn reads(&mut self, beside: u64) -> Result<f64, StoreRunError> {
        let failed = self.failed();
        let (mut reads, mut found) = (0, 0);
        let began = Instant::now();
        while reads == 0 || began.elapsed() < self.plan.duration {
            for _ in 0..READS {
                let number = self.random.random_range(0..self.plan.keys) * 2 + beside;
                let value = self.store.get(&key(number)).map_err(&failed)?;
                found += u64::from(value.is_some_and(|value| value.len() == self.value.len()));
            }
            reads += READS;
        }
        let seconds = began.elapsed().as_secs_f64();
        let expected = if beside == 0 { reads } else { 0 };
        if found != expected {
            return Err(StoreRunError::Wrong { store: self.name, found, expected });
        }
        Ok(reads as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_24_bytes_and_rise_with_their_numbers() {
        assert_eq!(&key(0), b"key-00000000000000000000");
        assert_eq!(&key(1_203), b"key-00000000000000001203");
        assert_eq!(&key(u64::MAX), b"key-18446744073709551615");
        assert!(key(8) < key(9) && key(9) < key(10));
    }
}
